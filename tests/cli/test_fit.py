"""`ipl fit`: what it learns, says and saves; what is at --out is safe, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.classifier import PromptClassifier
from ipl.config import FitConfig
from ipl.display.formatting import signed
from ipl.support.cache import Cache
from tests.helpers.files import contents
from tests.helpers.saved_runs import same_run

Call = Callable[..., Any]
FILES = {"config.json", "prompt.safetensors", "README.md"}


def test_text_and_json_tell_what_is_saved(
    fit: Call, images: Call, home: Path, words_file: Path
) -> None:
    data = images(beach=3, castle=3)
    result = fit(data, "--out", home / "run")
    assert (result.code, result.err) == (0, "")  # --quiet
    config = json.loads((home / "run" / "config.json").read_text())
    assert "Accuracy on 4 training images: " in result.out
    assert "Accuracy on 2 held-out images\n" in result.out
    assert f"Prompt: {config['prompt']}\n" in result.out
    assert f"Saved:  {home / 'run'}\n" in result.out
    (word,) = config["words"]
    assert word in words_file.read_text().split()
    assert signed(config["selection"]["steps"][0]["gain"]) in result.out
    assert {path.name for path in (home / "run").iterdir()} == FILES
    told = fit(data, "--out", home / "again", "--json").json
    assert (told.pop("out"), told.pop("notes")) == (str(home / "again"), [])
    assert told == json.loads((home / "again" / "config.json").read_text())
    assert same_run(home / "again", home / "run")


def test_the_prompt_stands_beside_its_baselines(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=4, castle=4), "--out", home / "run", "--compare", "--per-class")
    assert result.code == 0
    comparison = json.loads((home / "run" / "config.json").read_text())["results"]["comparison"]
    assert "without-words" in [method["name"] for method in comparison["methods"]]
    first, *_ = lines = result.out.splitlines()
    assert first == comparison["verdict"][0]
    assert all(sentence in lines for sentence in comparison["verdict"])
    for title in ("zero-shot CLIP", "linear probe", "prompt without words", "this prompt"):
        assert any(line.startswith(title) for line in lines)
    shown = [line.split() for line in lines if line.startswith(("beach ", "castle "))]
    zero_shot, prompt = (comparison["methods"][index]["correct"] for index in (0, -1))
    before_and_after = {row[0]: row[1:4] for row in shown}
    assert before_and_after["beach"] == ["1", str(zero_shot[0]), str(prompt[0])]
    assert before_and_after["castle"] == ["1", str(zero_shot[1]), str(prompt[1])]
    assert "--compare" not in result.out
    assert Cache().usage()["trainings"][0] == 0


def test_the_default_folder_is_numbered_when_taken(
    ipl: Call, fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=2, castle=2)
    first, second = (fit(data, "--json", "--epochs", 1) for _ in range(2))
    outs = [result.json["out"] for result in (first, second)]
    assert outs == ["ipl-runs/data-kgcoop-1w-seed1", "ipl-runs/data-kgcoop-1w-seed1-2"]
    assert all(set(os.listdir(home / out)) == FILES for out in outs)
    assert outs[0] not in str(first.json["notes"])
    assert outs[1] in str(second.json["notes"])
    assert outs[1] in second.err  # though it is --quiet


def test_several_seeds_are_the_fits_of_each_and_their_spread(
    fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=4, castle=4)
    assert fit(data, "--out", home / "alone", "--seed", 2).code == 0
    monkeypatch.setenv("IPL_CACHE", str(home / "cache"))
    told = fit(data, "--seeds", "1,2,1", "--out", home / "run", "--json").json
    assert [run["out"] for run in told["runs"]] == [str(home / f"run-seed{s}") for s in (1, 2)]
    file = "prompt.safetensors"
    assert (home / "run-seed2" / file).read_bytes() == (home / "alone" / file).read_bytes()
    accuracies = [run["results"]["held_out_accuracy"] for run in told["runs"]]
    *_, prompt = told["methods"]
    assert (prompt["name"], prompt["accuracies"]) == ("head", accuracies)
    assert (prompt["least"], prompt["most"]) == (min(accuracies), max(accuracies))
    words = [set(run["words"]) for run in told["runs"]]
    assert {each["word"] for each in told["stable_words"]} == words[0] & words[1]
    assert len(told["notes"]) == len(set(told["notes"]))
    assert Cache().usage()["images"][0] == 6  # each is encoded once


@pytest.mark.parametrize("options", [("1,2", "--seed", "1"), ("3,3",), ("1,x",)])
def test_seeds_that_are_not_possible(options: tuple[str, ...], refused: Call, images: Call) -> None:
    assert "seed" in refused(images(beach=2, castle=2), "--seeds", *options)


# -- what is at --out ------------------------------------------------------------------------------


def test_a_saved_run_is_refused_before_training(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = contents(home)
    monkeypatch.setattr("ipl.cli.fit.load_backbone", _must_not_run)
    message = fit(data, "--out", home / "run").error
    assert str(home / "run") in message
    assert "already" in message
    assert contents(home) == before


@pytest.mark.faults
def test_a_full_disk_at_saving_does_not_lose_the_training(
    fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=3, castle=3)
    assert fit(data, "--out", home / "expected").code == 0
    assert Cache().usage()["trainings"][0] == 0  # it is saved

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("ipl.saving.format.save", full)
        message = fit(data, "--out", home / "run").error
    assert "No space left on device. The training is kept in the cache" in message
    assert not (home / "run").exists()
    assert Cache().usage()["trainings"][0] == 3  # the prompt, and those of the head's folds
    with monkeypatch.context() as patch:
        patch.setattr("ipl.training.loop.make_step", _must_not_train)
        assert fit(data, "--out", home / "run").code == 0
    assert same_run(home / "run", home / "expected")
    assert Cache().usage()["trainings"][0] == 0


@pytest.mark.faults
def test_ctrl_c_stops_with_130_and_keeps_what_was_there(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = contents(home)
    monkeypatch.setattr(torch.optim.SGD, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    result = fit(data, "--out", home / "run", "--overwrite")
    assert result.code == 130
    assert result.out == ""
    assert "stopped" in result.err
    assert "no run was saved" in result.err
    assert str(home / "run") in result.err
    assert "Traceback" not in result.err
    assert contents(home) == before


def test_seeds_go_on_where_they_were_stopped(
    fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=3, castle=3)
    save, saved = PromptClassifier.save_pretrained, []

    def save_one(classifier: PromptClassifier, folder: Path, overwrite: bool) -> None:
        if saved:
            raise KeyboardInterrupt
        save(classifier, folder, overwrite)
        saved.append(folder)

    with monkeypatch.context() as patch:
        patch.setattr(PromptClassifier, "save_pretrained", save_one)
        stopped = fit(data, "--seeds", "1,2", "--out", home / "a run")
    assert stopped.code == 130
    assert f"stopped: {saved[0]} was saved. Run the same command again" in stopped.err
    before = (saved[0] / "config.json").stat().st_mtime_ns
    result = fit(data, "--seeds", "1,2", "--out", home / "a run")
    assert result.code == 0
    assert result.out.startswith("Over 2 seeds ")
    assert (saved[0] / "config.json").stat().st_mtime_ns == before
    assert {path.name for path in (home / "a run-seed2").iterdir()} == FILES
    # Another fit is not taken for this one.
    message = fit(data, "--seeds", "1,2", "--epochs", 4, "--out", home / "a run").error
    assert "already contains a saved run" in message


# -- words ----------------------------------------------------------------------------------------


def test_the_papers_rule_tries_what_the_epochs_allow_and_takes_the_best(
    fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=4, castle=4, forest=4)
    limits = ("--epochs", 5, "--interval", 2, "--lr", 0.02)
    result = fit(data, "--words", "paper", *limits)
    out = home / "ipl-runs" / "data-kgcoop-paper-seed1"
    told = json.loads((out / "config.json").read_text())
    tried = told["results"]["words_tried"]
    assert [trial["words"] for trial in tried] == [1, 2]
    best = min(tried, key=lambda trial: (-trial["accuracy"], trial["loss"], trial["words"]))
    assert len(told["words"]) == best["words"] == told["prompt"].count("*") / 2
    entered = [epoch["word"] for epoch in told["training"]["history"]["epochs"]]
    assert [word for word in entered if word] == told["words"]
    assert f"{best['words']} did best on the training images" in result.out


@pytest.mark.parametrize(
    ("options", "words", "sentence"),
    [
        (("--empty-slots",), [], "it was trained with empty slots in their places"),
        (("--words-given", "Bright, playfulness"), ["bright", "playfulness"], "given by a person"),
        (("--random-words", "1"), None, "drawn at random"),
    ],
)
def test_slots_without_a_search(
    options: tuple[str, ...],
    words: list[str] | None,
    sentence: str,
    fit: Call,
    three_classes: Path,
    home: Path,
) -> None:
    told = fit(three_classes, "--words", "2", *options, "--json").json
    assert told["words"] == (words if words is not None else told["words"])
    assert len(told["words"]) == (0 if words == [] else 2)
    assert told["selection"] is None
    assert sentence in (home / told["out"] / "README.md").read_text()
    command = shlex.split(FitConfig.from_dict(told["config"]).command("data"))
    again = fit(three_classes, *command[3:], "--json", "--out", home / "again").json
    assert again["results"] == told["results"]


def test_the_next_fit_has_its_words_and_images_from_the_cache(
    fit: Call, images: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=3, castle=3)
    first = fit(data, "--words", 2, "--views", 0, "--json").json
    monkeypatch.setattr("ipl.words.search.score_words", _must_not_run)
    monkeypatch.setattr("ipl.backbone.clip.ClipBackbone.encode_image", _must_not_run)
    again = fit(data, "--words", 2, "--epochs", 5, "--lr", 0.1, "--views", 0, "--json").json
    assert again["selection"] == first["selection"]
    assert again["training"]["epochs"] == 5
    one = fit(data, "--words", 1, "--views", 0, "--json").json
    assert one["words"] == first["words"][:1]


# -- bad input ------------------------------------------------------------------------------------


def test_a_setting_out_of_range_is_named(refused: Call, images: Call) -> None:
    data = images(beach=1, castle=1)
    for option, value in (("--words", "-1"), ("--lr", "1.7e+308"), ("--device", "quantum")):
        message = refused(data, option, value)
        assert option.removeprefix("--") in message
        assert value in message
    assert "'pocket'" in refused(data, "--backbone", "pockt")


def test_data_that_cannot_be_learnt_from(refused: Call, images: Call, home: Path) -> None:
    assert str(home / "nowhere") in refused(home / "nowhere")
    assert "beach" in refused(images(beach=2))  # one class only


def _must_not_train(*_: Any, **__: Any) -> None:
    raise AssertionError("an epoch was trained again")


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed although it need not be")
