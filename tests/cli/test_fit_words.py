"""`ipl fit`: how many words, how they are searched for, and what is kept for the next fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ipl.support.cache import cache_folder

Call = Callable[..., Any]


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def _best(tried: list[dict[str, Any]]) -> int:
    """Returns the number of words that training accuracy, loss and brevity speak for."""
    return int(min(tried, key=lambda t: (-t["accuracy"], t["loss"], t["words"]))["words"])


# -- paper ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epochs", "interval", "most"), [(6, 1, 6), (5, 2, 2), (2, 2, 1)])
def test_the_papers_rule_tries_what_the_epochs_allow_and_takes_the_best(
    epochs: int, interval: int, most: int, fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=4, castle=4, forest=4)
    limits = ("--epochs", epochs, "--interval", interval, "--lr", 0.02)
    result = fit(data, "--words", "paper", *limits, "--json", "--out", "run")
    told = result.json
    tried = told["results"]["words_tried"]
    assert [trial["words"] for trial in tried] == list(range(1, most + 1))
    assert len(told["words"]) == _best(tried)
    assert told["selection"]["words"] == told["words"]
    assert told["prompt"].count("*") == 2 * len(told["words"])
    assert told["results"]["train_accuracy"] == tried[len(told["words"]) - 1]["accuracy"]
    assert json.loads((home / "run" / "config.json").read_text())["results"] == told["results"]
    entered = [epoch["word"] for epoch in told["training"]["history"]["epochs"]]
    assert [word for word in entered if word] == told["words"]


def test_the_report_shows_what_was_tried(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=2, castle=2), "--words", "paper", "--epochs", 3)
    out = home / "ipl-runs" / "data-coop-paper-seed1"
    tried = json.loads((out / "config.json").read_text())["results"]["words_tried"]
    lines = [line.split() for line in result.out.splitlines()]
    for trial in tried:
        row = [str(trial["words"]), f"{100 * trial['accuracy']:.1f}", "%", f"{trial['loss']:.4f}"]
        assert row + ["taken"] * (trial["words"] == _best(tried)) in lines
    assert "ipl-runs/data-coop-paper-seed1\n" in result.out


def test_auto_stops_at_noise_and_says_so(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=4, castle=4, forest=4)
    result = fit(data, "--words", "auto", "--epochs", 6, "--interval", 1, "--out", "run")
    selection = json.loads((home / "run" / "config.json").read_text())["selection"]
    assert all(step["certainty"]["low"] > 0 for step in selection["steps"])
    stopped = selection["stopped_before"]
    assert stopped is not None  # six words are never all of use
    assert stopped["certainty"]["low"] <= 0
    told = "The search stopped before" if selection["steps"] else "No word earned its place"
    assert told in result.out + result.err
    assert repr(stopped["word"]) in result.out + result.err


# -- how they are searched for --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_the_search_is_told(mode: str, fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=2, castle=2), "--search", mode, "--out", "run")
    selection = json.loads((home / "run" / "config.json").read_text())["selection"]
    assert selection["search"] == mode
    assert selection["how_checked"] in result.out


# -- what is kept for the next fit ----------------------------------------------------------------


def test_the_next_fit_has_its_words_and_images_from_the_cache(
    fit: Call, ipl: Call, images: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=3, castle=3)
    first = fit(data, "--words", 2, "--views", 0, "--json", "--out", "a").json
    (facts,) = [entry["facts"] for entry in ipl("cache", "--json").json["selections"]]
    assert facts["words"] == first["words"]
    for method in ("features", "loss"):
        monkeypatch.setattr(f"ipl.words.scorer.SentenceScorer.{method}", _must_not_run)
    monkeypatch.setattr("ipl.backbone.clip.ClipBackbone.encode_image", _must_not_run)
    again = fit(
        data, "--words", 2, "--epochs", 5, "--lr", 0.1, "--views", 0, "--json", "--out", "b"
    )
    assert again.json["selection"] == first["selection"]
    assert again.json["training"]["epochs"] == 5
    one = fit(
        data, "--words", 1, "--views", 0, "--json", "--out", "c"
    ).json  # its word is the first of two
    assert one["words"] == first["words"][:1]


def test_no_cache_keeps_nothing_and_gives_the_same(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=3, castle=3)
    assert fit(data, "--no-cache", "--out", "a").code == 0
    assert not cache_folder().exists()
    assert fit(data, "--out", "b").code == 0
    assert cache_folder().exists()
    a, b = (load_file(home / run / "prompt.safetensors")["soft"] for run in "ab")
    torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
