"""`ipl select`: what it finds, says and refuses, and what it keeps for next time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl.display.formatting import signed
from ipl.select import select_words
from ipl.support.cache import Cache
from ipl.words.pool import Pool

Call = Callable[..., Any]


def test_text_shows_words_and_gains(select: Call, found: Call, home: Path) -> None:
    before = sorted(home.rglob("*"))
    told, text = found(), select("--quiet").out
    for step in told["steps"]:
        (line,) = [line for line in text.splitlines() if line.startswith(step["word"])]
        assert signed(step["gain"]) in line
    assert told["how_checked"] == "All 6 words scored in fp32."
    assert told["how_checked"] in text
    assert sorted(home.rglob("*")) == before  # nothing but the cache is written


def test_json_is_the_selection_of_the_library(
    found: Call, three_classes: Path, words_file: Path
) -> None:
    from ipl.backbone.loading import load_backbone

    told = found("--seed", 3, "--no-cache")
    pocket = load_backbone("pocket", "cpu")
    pool, _ = Pool.from_file(words_file, pocket.tokenizer)
    again = select_words(three_classes, 2, backbone=pocket, shots=2, pool=pool, seed=3, cache=False)
    expected = json.loads(json.dumps(again.as_dict()))
    for steps in (told["steps"], expected["steps"]):
        assert all(step.pop("seconds") >= 0 for step in steps)
    asked = {"data": str(three_classes), "backbone": "pocket", "shots": 2, "seed": 3}
    assert told.pop("notes") == list(again.notes)
    assert told == {**asked, "classes": ["beach", "castle", "forest"], **expected}


def test_progress_and_warnings_go_to_standard_error(select: Call, three_classes: Path) -> None:
    (three_classes / "beach" / "list.txt").write_text("notes")
    result = select("--words", 6, "--json")
    assert [step["checked"] for step in result.json["steps"]] == [6, 5, 4, 3, 2, 1]
    assert "Choosing word 1 of 6: 6 of 6" in result.err
    skipped = f"Not an image: {three_classes}/beach/list.txt; skipped."
    assert f"warning: {skipped}" in result.err
    harmful = [repr(step["word"]) for step in result.json["steps"] if step["gain"] < 0]
    assert harmful  # all six words are never all of use
    assert f"warning: {', '.join(harmful)} ha" in result.err


def test_options_arrive(found: Call, home: Path) -> None:
    plain = found()
    for options, field, value in (
        (("--lambda", 0.5), "lambda_", 0.5),
        (("--template", "{cls}: {words}."), "template", "{cls}: {words}."),
    ):
        told = found(*options)
        assert told[field] == value != plain[field]
        assert told["steps"] != plain["steps"]
    assert found("--shots", 1)["loss_without_words"] != plain["loss_without_words"]
    (home / "named.txt").write_text("stone\nwater\nutah\n")
    assert found("--words-file", home / "named.txt")["pool_size"] == 3
    assert found("--words-file", home / "named.txt", "--pool", "no-names")["pool_size"] == 2


# -- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--words", 7), ["words is 7", "the pool has 6 words"]),
        (("--words", "three"), ["--words"]),
        (("--search", "foo"), ["search is 'foo'"]),
        (("--template", "{words} {cls}"), ["{cls} and, after it, {words}"]),
        (("--backbone", "pockt"), ["'pocket'"]),
        (("--words-file", "none.txt"), ["none.txt"]),
    ],
)
def test_bad_values_get_one_sentence(
    options: tuple[object, ...], named: list[str], select: Call
) -> None:
    message = select("--quiet", *options).error
    assert all(part in message for part in named), message
    assert not Cache().files("selections")


def test_no_such_data(ipl: Call, home: Path) -> None:
    assert "nowhere" in ipl("select", home / "nowhere").error
    assert ipl("select").code == 2


# -- what is kept for next time --------------------------------------------------------------------


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes any look at a prompt or at an image a failure."""
    for method in ("features", "prompt"):
        monkeypatch.setattr(f"ipl.words.scorer.SentenceScorer.{method}", _must_not_run)
    monkeypatch.setattr("ipl.backbone.clip.ClipBackbone.encode_image", _must_not_run)


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def test_the_second_time_nothing_is_computed(
    select: Call, found: Call, request: pytest.FixtureRequest
) -> None:
    first = found("--words", 3)
    request.getfixturevalue("no_search")
    assert found("--words", 3) == first
    assert found("--words", 1)["steps"] == first["steps"][:1]
    warnings = "".join(f"warning: {note}\n" for note in first["notes"])
    assert select("--words", 3).err == f"The words are in the cache.\n{warnings}"
    assert select("--words", 3, "--quiet").err == warnings
