"""`ipl fit`: what it learns, says and saves; what is at --out is safe, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ipl.classifier import PromptClassifier
from ipl.support.cache import Cache
from tests.helpers.saved_runs import same_run

Call = Callable[..., Any]
QUICK = (
    *("--shots", "2", "--epochs", "3", "--interval", "1", "--words", "1", "--views", "2"),
    *("--device", "cpu"),
)
FILES = {"config.json", "prompt.safetensors", "README.md"}


def test_text_shows_accuracies_word_prompt_and_where(
    fit: Call, images: Call, home: Path, words_file: Path
) -> None:
    result = fit(images(beach=3, castle=3), "--out", home / "run")
    assert result.code == 0
    assert result.err == ""  # --quiet
    config = json.loads((home / "run" / "config.json").read_text())
    assert "Accuracy on 4 training images: " in result.out
    assert "Accuracy on 2 held-out images\n" in result.out
    assert f"Prompt: {config['prompt']}\n" in result.out
    assert f"Saved:  {home / 'run'}\n" in result.out
    (word,) = config["words"]
    assert word in words_file.read_text().split()
    gain = config["selection"]["steps"][0]["gain"]
    assert f"{gain:+.4f}" in result.out
    assert {path.name for path in (home / "run").iterdir()} == FILES


def test_json_is_the_saved_config_with_out_and_notes(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=3, castle=3), "--out", home / "run", "--json")
    assert result.code == 0
    told = result.json
    assert told.pop("out") == str(home / "run")
    assert told.pop("notes") == []
    assert told == json.loads((home / "run" / "config.json").read_text())
    assert told["classes"] == ["beach", "castle"]
    assert told["results"]["held_out_images"] == 2
    assert len(told["training"]["history"]["epochs"]) == 3


def test_the_prompt_stands_beside_its_baselines(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=4, castle=4), "--out", home / "run", "--compare", "--per-class")
    assert result.code == 0
    comparison = json.loads((home / "run" / "config.json").read_text())["results"]["comparison"]
    names = [method["name"] for method in comparison["methods"]]
    assert names == ["zero-shot", "linear-probe", "without-words", "prompt"]
    first, *_ = lines = result.out.splitlines()
    assert first == comparison["verdict"][0]
    assert all(sentence in lines for sentence in comparison["verdict"])
    for title in ("zero-shot CLIP", "linear probe", "the same without words", "this prompt"):
        assert any(line.startswith(title) for line in lines)
    shown = [line.split() for line in lines if line.startswith(("beach ", "castle "))]
    zero_shot, prompt = (comparison["methods"][index]["correct"] for index in (0, -1))
    before_and_after = {row[0]: row[1:4] for row in shown}
    assert before_and_after["beach"] == ["2", str(zero_shot[0]), str(prompt[0])]
    assert before_and_after["castle"] == ["2", str(zero_shot[1]), str(prompt[1])]
    assert "--compare" not in result.out
    assert Cache().usage()["trainings"][0] == 0


def test_the_default_folder_is_numbered_when_taken(
    ipl: Call, fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=2, castle=2)
    first, second = (fit(data, "--json", "--epochs", 1) for _ in range(2))
    outs = [result.json["out"] for result in (first, second)]
    assert outs == ["ipl-runs/data-coop-1w-seed1", "ipl-runs/data-coop-1w-seed1-2"]
    assert all(set(os.listdir(home / out)) == FILES for out in outs)
    said = f"{outs[0]} is already taken, so this run was saved as {outs[1]}."
    assert second.json["notes"] == [*first.json["notes"], said]
    assert f"warning: {said}" in second.err  # though it is --quiet
    loud = ipl("fit", data, *QUICK, "--words", 0, "--seeds", "1,2")
    assert "taken" not in loud.err
    loud = ipl("fit", data, *QUICK, "--words", 0, "--seeds", "1,2")
    for seed in (1, 2):
        folder = f"ipl-runs/data-coop-0w-seed{seed}"
        said = f"{folder} is already taken, so this run was saved as {folder}-2.\n"
        assert loud.err.count(said) == 1


def test_a_table_gives_the_same_prompt_as_the_folder(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=3, castle=3)
    rows = "".join(
        f"{path.relative_to(home)},{path.parent.name}\n" for path in sorted(data.rglob("*.png"))
    )
    (home / "list.csv").write_text("path,label\n" + rows)
    runs = [fit(source, "--out", home / out, "--json").json for source, out in (
        (data, "from folder"), (home / "list.csv", "from table")
    )]  # fmt: skip
    assert runs[0]["results"] == runs[1]["results"]
    tensors = [(home / out / "prompt.safetensors").read_bytes() for out in
               ("from folder", "from table")]  # fmt: skip
    assert tensors[0] == tensors[1]


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
    assert (prompt["name"], prompt["accuracies"]) == ("prompt", accuracies)
    assert (prompt["least"], prompt["most"]) == (min(accuracies), max(accuracies))
    words = [set(run["words"]) for run in told["runs"]]
    assert {each["word"] for each in told["stable_words"]} == words[0] & words[1]
    assert len(told["notes"]) == len(set(told["notes"]))
    assert Cache().usage()["images"][0] == 8  # each is encoded once


def test_the_text_of_several_seeds(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=4, castle=4), "--seeds", "1,2", "--per-class")
    assert result.out.startswith("Over 2 seeds this prompt is right for ")
    for seed in (1, 2):
        assert f"Saved:  ipl-runs/data-coop-1w-seed{seed}\n" in result.out
        assert set(os.listdir(home / f"ipl-runs/data-coop-1w-seed{seed}")) == FILES
    assert "Next:   ipl compare ipl-runs/data-coop-1w-seed1 " in result.out.replace(
        "python -m ipl", "ipl"
    )
    assert result.out.count("Images of each class that zero-shot and this prompt get right") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seeds", "1,2", "--seed", "1"), "--seed and --seeds contradict each other"),
        (
            ("--seeds", "3,3"),
            "--seeds is 3,3; give two or more different seeds",
        ),
        (("--seeds", "1,x"), "seed is 'x'; it must be a whole number from 0 to 4,294"),
    ],
)
def test_seeds_that_are_not_possible(
    options: tuple[str, ...], message: str, refused: Call, images: Call
) -> None:
    assert message in refused(images(beach=2, castle=2), *options)


def test_a_broken_image_is_named_skipped_and_counted(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=2, castle=2)
    (data / "beach" / "fake.jpg").write_text("not an image")
    result = fit(data, "--shots", 3, "--out", home / "run", "--json")
    assert result.code == 0
    (skipped,) = [note for note in result.json["notes"] if "skipped" in note]
    assert skipped.startswith("1 training image was skipped")
    assert f"{data / 'beach' / 'fake.jpg'}: not an image" in skipped
    assert result.json["training"]["images"] == 4


def test_a_folder_whose_name_is_not_utf8(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=2, castle=2)
    odd = home / os.fsdecode(b"caf\xe9")
    try:
        data.rename(odd)
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    result = fit(odd, "--out", home / "run", "--json")
    assert result.code == 0
    assert set(os.listdir(home / "run")) == FILES


def test_the_advice_can_be_typed_when_a_name_has_a_blank(
    fit: Call, ipl: Call, images: Call, home: Path
) -> None:
    data = images(beach=3, castle=3)
    result = fit(data, "--out", "my run")
    *_, first, second, third = result.out.splitlines()
    assert first.startswith("Next: ")
    for line, command in ((first, "predict"), (second, "report"), (third, "evaluate")):
        words = shlex.split(line)
        assert words[words.index(command) + 1] == "my run"
    assert shlex.split(second)[-2:] == ["--data", str(data)]
    all_drawn = fit(data, "--shots", "3", "--out", "other")
    assert "No image is left to measure the accuracy on: 3 of each class" in all_drawn.err
    assert all_drawn.out.splitlines()[-2].endswith("report other")  # --data would add nothing


def test_the_defaults_in_the_help_are_those_in_use() -> None:
    """The command line states them without importing the search, so they must be kept equal."""
    from ipl.backbone.prefix_cache import MEMORY
    from ipl.cli import shared_options as common
    from ipl.config import FitConfig

    config = FitConfig()
    assert common.MEMORY.default == config.memory == MEMORY


# -- what is at --out ------------------------------------------------------------------------------


def _tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def test_a_saved_run_is_refused_before_training(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    monkeypatch.setattr("ipl.cli.fit.load_backbone", _must_not_run)
    message = fit(data, "--out", home / "run").error
    assert str(home / "run") in message
    assert "already" in message
    assert _tree(home) == before


def test_overwrite_replaces_a_saved_run(
    fit: Call, images: Call, saved_run: Path, home: Path
) -> None:
    shutil.copytree(saved_run, home / "run")
    result = fit(images(beach=2, castle=2), "--out", home / "run", "--overwrite", "--json")
    assert result.code == 0
    assert json.loads((home / "run" / "config.json").read_text())["classes"] == ["beach", "castle"]
    assert sorted(os.listdir(home)) == ["data", "run"]


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
    assert Cache().usage()["trainings"][0] == 1
    with monkeypatch.context() as patch:
        patch.setattr("ipl.training.loop.make_step", _must_not_train)
        assert fit(data, "--out", home / "run").code == 0
    assert same_run(home / "run", home / "expected")
    assert Cache().usage()["trainings"][0] == 0


KILLED = """
import os, signal, sys
import ipl.training.fit
from ipl.cli.main import main

ipl.training.fit.encode_items = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


@pytest.mark.faults
def test_a_kill_after_the_last_epoch_does_not_lose_the_training(
    fit: Call, images: Call, home: Path, words_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed where the held-out images are scored."""
    data = images(beach=3, castle=3)
    assert fit(data, "--out", home / "expected").code == 0
    arguments = ["fit", data, *QUICK, "--words-file", words_file, "--out", home / "run", "--quiet"]
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert sorted(os.listdir(home)) == [".run.lock", "data", "expected"]
    monkeypatch.setattr("ipl.training.loop.make_step", _must_not_train)
    assert fit(data, "--out", home / "run").code == 0
    assert sorted(os.listdir(home)) == ["data", "expected", "run"]
    assert same_run(home / "run", home / "expected")


@pytest.mark.faults
def test_ctrl_c_stops_with_130_and_keeps_what_was_there(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    monkeypatch.setattr(torch.optim.SGD, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    # A background job may have been started with the signal ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = fit(data, "--out", home / "run", "--overwrite")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert result.code == 130
    assert result.out == ""
    assert "stopped" in result.err
    assert "nothing was saved" in result.err
    assert str(home / "run") in result.err
    assert "Traceback" not in result.err
    assert _tree(home) == before


def test_ctrl_c_between_seeds_says_how_to_go_on(
    fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=3, castle=3)
    save, saved = PromptClassifier.save_pretrained, []

    def save_one(classifier: PromptClassifier, folder: Path, overwrite: bool) -> None:
        if saved:
            raise KeyboardInterrupt
        save(classifier, folder, overwrite)
        saved.append(folder)

    monkeypatch.setattr(PromptClassifier, "save_pretrained", save_one)
    three = fit(data, "--seeds", "1,2,3", "--out", home / "a run")
    saved.clear()
    two = fit(data, "--seeds", "4,5", "--out", home / "a run")
    for result, seed in ((three, 1), (two, 4)):
        assert result.code == 130
        assert f"stopped: {home / f'a run-seed{seed}'} was saved. Go on with --seed" in result.err
    assert three.err.endswith("--seeds 2,3.\n")
    assert two.err.endswith(f"--seed 5 --out '{home / 'a run-seed5'}'.\n")


def test_a_fit_is_logged(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=3, castle=3)
    result = fit(data, "--seeds", "1,2", "--out", home / "run", "--log-to", "tensorboard:logs")
    assert result.code == 0, result.err
    for seed in (1, 2):
        name = f"run-seed{seed}"
        events = EventAccumulator(str(home / "logs" / name))
        events.Reload()
        values = json.loads((home / name / "config.json").read_text())
        losses = [epoch["loss"] for epoch in values["training"]["history"]["epochs"]]
        assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses)
        for file in (home / name).iterdir():
            assert (home / "logs" / name / file.name).read_bytes() == file.read_bytes()


def _must_not_train(*_: Any, **__: Any) -> None:
    raise AssertionError("an epoch was trained again")


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("the backbone was loaded before --out was looked at")
