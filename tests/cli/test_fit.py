"""`ipl fit`: what it learns, says and saves; what is at --out is safe, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ipl.training.fit
from ipl.classifier import PromptClassifier
from ipl.support.cache import Cache
from ipl.support.files import claim_folder
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


def test_the_comparison_of_words_is_offered_with_its_time(
    fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=3, castle=3)
    offer = r"Whether the words matter was not tested: --compare does it, in about \d+ s more\."
    assert re.search(offer, fit(data, "--out", home / "run").out)
    assert "--compare" not in fit(data, "--out", home / "plain", "--words", 0).out


def test_few_epochs_alone_shorten_the_interval_and_say_so(
    ipl: Call, images: Call, words_file: Path
) -> None:
    settings = ["--shots", 2, "--epochs", 4, "--words", 2, "--views", 0, "--device", "cpu"]
    data = images(beach=2, castle=2)
    told = ipl("fit", data, *settings, "--words-file", words_file, "--json", "--out", "run").json
    assert told["training"]["interval"] == 2
    (note,) = [note for note in told["notes"] if note.startswith("interval")]
    start = "interval is 2, not the published 10: with 4 epochs, "
    assert note == f"{start}a word enters every 2 epochs."


def test_progress_goes_to_standard_error(
    ipl: Call, images: Call, home: Path, words_file: Path
) -> None:
    settings = ["--shots", 2, "--epochs", 3, "--interval", 1, "--words", 1, "--device", "cpu"]
    data = images(beach=2, castle=2)
    result = ipl("fit", data, *settings, "--words-file", words_file, "--json", "--out", "run")
    assert result.json["out"] == "run"
    assert "Training: 3 of 3" in result.err
    assert "Choosing word 1 of 1: 6 of 6" in result.err


def test_words_0_is_the_plain_learner(fit: Call, images: Call, home: Path) -> None:
    told = fit(images(beach=2, castle=2), "--words", 0, "--out", home / "run", "--json").json
    assert told["prompt"] == "[V V V V] {cls}."
    assert told["words"] == []
    assert told["selection"] is None


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


@pytest.mark.faults
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_a_folder_that_another_fit_will_save_to_is_refused_before_training(
    overwrite: tuple[str, ...],
    images: Call,
    refused: Call,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = images(beach=2, castle=2)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    with ThreadPoolExecutor(1) as other:
        claim = claim_folder(home / "out")
        other.submit(claim.__enter__).result()
        assert "out is being written by another process" in refused(data, *overwrite)
        other.submit(claim.__exit__, None, None, None).result()


@pytest.mark.faults
def test_a_run_that_appeared_during_training_is_not_replaced(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a run is copied there; what was trained resumes in another folder."""
    train = ipl.training.fit.train

    def copy(*arguments: Any, **options: Any) -> Any:
        shutil.copytree(saved_run, home / "run")
        return train(*arguments, **options)

    data = images(beach=2, castle=2)
    monkeypatch.setattr(ipl.training.fit, "train", copy)
    assert "already contains a saved run" in fit(data, "--out", home / "run").error
    assert _tree(home / "run") == _tree(saved_run)
    assert sorted(os.listdir(home)) == ["data", "run"]


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


def test_the_same_seed_gives_the_same_bytes(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=4, castle=4)
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert fit(data, "--out", home / out, "--seed", seed).code == 0
    a, b, c = ((home / out / "prompt.safetensors").read_bytes() for out in "abc")
    assert a == b
    assert a != c


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
        (("--seeds", "1,x"), "--seeds is 'x'; it must be a whole number from 0 to 4,294"),
    ],
)
def test_seeds_that_are_not_possible(
    options: tuple[str, ...], message: str, refused: Call, images: Call
) -> None:
    assert message in refused(images(beach=2, castle=2), *options)


def test_fewer_images_than_shots_are_all_used_and_it_says_so(
    fit: Call, images: Call, home: Path
) -> None:
    result = fit(images(beach=2, castle=5), "--shots", 4, "--out", home / "run", "--json")
    assert result.code == 0
    untested, note = result.json["notes"]
    assert untested.startswith("1 class has no held-out image: beach; ")
    assert "fewer than 4 training images" in note
    assert "beach" in note
    assert "castle" not in note
    assert result.err == f"warning: {untested}\nwarning: {note}\n"
    assert result.json["training"]["images"] == 2 + 4
    assert result.json["results"]["held_out_images"] == 1


def test_no_image_left_to_hold_out_is_said(fit: Call, images: Call, home: Path) -> None:
    result = fit(images(beach=2, castle=2), "--out", home / "run")
    assert "Held-out accuracy: not measured" in result.out
    assert "not measured" in (home / "run" / "README.md").read_text()


def test_what_is_unusual_about_the_data_is_noted(
    ipl: Call, fit: Call, images: Call, home: Path
) -> None:
    data = images({"beach": 3, "Größe": 3})
    shutil.copy(data / "beach/0.png", data / "Größe/copy.png")
    (data / "beach/gone.png").symlink_to("nowhere.png")
    arguments = ("--out", home / "run", "--class-template", "a drawing of {}", "--json")
    result = fit(data, *arguments)
    assert result.code == 0
    notes = result.json["notes"]
    assert [note.split(":")[0] for note in notes[:4]] == [
        "--class-template changes nothing",
        "1 link leads nowhere and was skipped",
        "1 image is in more than one class",
        "1 class name has letters or signs beyond ASCII",
    ]
    assert result.json["classes"] == ["Größe", "beach"]
    predicted = ipl("predict", home / "run", data / "beach/0.png", "--json").json
    assert {each["name"] for each in predicted["predictions"][0]["classes"]} == {"Größe", "beach"}


def test_a_file_that_is_no_image_is_named_and_counted(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=2, castle=2)
    (data / "beach" / "list.txt").write_text("notes")
    (data / "castle" / ".DS_Store").write_text("litter")
    result = fit(data, "--out", home / "run")
    assert result.code == 0
    assert "1 file is not an image and was skipped: " in result.err
    assert "list.txt" in result.err
    assert ".DS_Store" not in result.err


def test_broken_images_are_named_skipped_and_counted(fit: Call, images: Call, home: Path) -> None:
    data = images(beach=2, castle=2)
    (data / "beach" / "fake.jpg").write_text("not an image")
    _truncated_jpeg(data / "castle" / "cut.jpg")
    result = fit(data, "--shots", 3, "--out", home / "run", "--json")
    assert result.code == 0
    (skipped,) = [note for note in result.json["notes"] if "skipped" in note]
    assert skipped.startswith("2 training images were skipped")
    assert f"{data / 'beach' / 'fake.jpg'}: not an image" in skipped
    assert f"{data / 'castle' / 'cut.jpg'}: the file is truncated" in skipped
    assert result.json["training"]["images"] == 4


@pytest.mark.parametrize("kind", ["text", "fake", "truncated"])
def test_strict_fails_on_a_bad_file(kind: str, refused: Call, images: Call) -> None:
    data = images(beach=2, castle=2)
    name = {"text": "list.txt", "fake": "fake.jpg", "truncated": "cut.jpg"}[kind]
    if kind == "truncated":
        _truncated_jpeg(data / "castle" / name)
    else:
        (data / "castle" / name).write_text("not an image")
    message = refused(data, "--strict", "--shots", 3)
    assert str(data / "castle" / name) in message
    assert ("truncated" if kind == "truncated" else "not an image") in message


def test_a_class_without_a_readable_image_is_refused(refused: Call, images: Call) -> None:
    data = images(beach=2, castle=0)
    (data / "castle" / "a.png").write_text("not an image")
    assert "'castle'" in refused(data)


def test_readable_images_are_drawn_in_place_of_broken_ones(
    fit: Call, images: Call, home: Path
) -> None:
    data = images(beach=9, castle=2)
    for index in range(7):
        (data / "beach" / f"{index}.png").write_text("not an image")
    result = fit(data, "--out", home / "run", "--json")
    assert result.code == 0, result.err  # two of nine can be read, and two are needed


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


def test_a_failing_loss_names_epoch_and_batch(refused: Call, images: Call) -> None:
    message = refused(images(beach=2, castle=2), "--lr", "1e38")
    assert "epoch" in message
    assert "batch 1" in message


def _truncated_jpeg(path: Path) -> None:
    from PIL import Image

    Image.radial_gradient("L").resize((96, 96)).save(path, quality=95)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def test_the_defaults_in_the_help_are_those_in_use() -> None:
    """The command line states them without importing the search, so they must be kept equal."""
    from ipl.backbone.prefix_cache import MEMORY
    from ipl.cli import shared_options as common
    from ipl.config import FitConfig
    from ipl.words.modes import Search

    config = FitConfig()
    assert common.MEMORY.default == config.memory == MEMORY
    assert (config.search, config.shortlist) == (Search().mode, Search().shortlist)


def test_the_help_lists_the_learners(ipl: Call) -> None:
    from ipl.learners.registry import known_learners

    text = " ".join(ipl("fit", "--help").out.split())
    assert all(name in text for name in known_learners())


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
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
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


def test_overwrite_keeps_what_a_user_put_beside_the_run(
    fit: Call, images: Call, saved_run: Path, home: Path
) -> None:
    shutil.copytree(saved_run, home / "run")
    (home / "run" / "my notes.txt").write_text("mine")
    result = fit(images(beach=2, castle=2), "--out", home / "run", "--overwrite")
    assert (home / "run" / "my notes.txt").read_text() == "mine", result


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("kind", ["a file", "other files"])
def test_out_that_is_something_else_is_refused_before_training(
    kind: str,
    overwrite: tuple[str, ...],
    fit: Call,
    images: Call,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = images(beach=2, castle=2)
    if kind == "a file":
        (home / "out").write_text("mine")
    else:
        (home / "out").mkdir()
        (home / "out" / "thesis.txt").write_text("mine")
    before = _tree(home)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    assert str(home / "out") in fit(data, "--out", home / "out", *overwrite).error
    assert _tree(home) == before


def test_out_below_a_file_is_refused_before_training(
    images: Call, refused: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    assert "0.png" in refused(data, "--out", data / "beach" / "0.png" / "run")


def test_out_that_cannot_be_written_is_refused_before_training(
    images: Call, refused: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    (home / "locked").mkdir()
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    real = os.access  # root may write anywhere, so the answer is given here
    monkeypatch.setattr(
        os, "access", lambda p, mode, **k: "locked" not in str(p) and real(p, mode, **k)
    )
    assert "locked" in refused(data, "--out", home / "locked" / "run")


def test_an_empty_folder_is_filled(fit: Call, images: Call, home: Path) -> None:
    (home / "run").mkdir()
    assert fit(images(beach=2, castle=2), "--out", home / "run").code == 0
    assert set(os.listdir(home / "run")) == FILES


def test_a_link_to_a_folder_stays_a_link(fit: Call, images: Call, home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to("real")
    assert fit(images(beach=2, castle=2), "--out", home / "link").code == 0
    assert set(os.listdir(home / "link")) == FILES
    assert sorted(os.listdir(home)) == ["data", "link", "real"]
    assert (home / "link").is_symlink()


@pytest.mark.faults
@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5, 6])
def test_a_full_disk_leaves_the_earlier_run(
    failing: int,
    fit: Call,
    images: Call,
    saved_run: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    calls, real = [0], os.replace

    def full(source: Any, target: Any, **options: Any) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", full)
    result = fit(data, "--epochs", 1, "--out", home / "run", "--overwrite", "--no-cache")
    assert calls[0] >= failing
    assert "No space left on device" in result.error
    assert _tree(home) == before


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


@pytest.mark.parametrize(
    "place", ["ipl.datasets.readers.read_dataset", "ipl.saving.run_folder.check_target"]
)
def test_ctrl_c_says_the_same_before_training(
    place: str, fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    before = _tree(home)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    result = fit(data, "--out", home / "run")
    assert result.code == 130
    assert "nothing was saved" in result.err
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


def test_a_comparison_without_words_is_pointed_out(fit: Call, images: Call) -> None:
    result = fit(images(beach=3, castle=3), "--words", 0, "--compare")
    assert "--compare changes nothing" in result.err


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


def test_a_logger_that_is_none_is_told_before_anything(refused: Call, images: Call) -> None:
    data = images(beach=3, castle=3)
    assert refused(data, "--log-to", "tensorbord:logs").startswith("No logger is called")


def _must_not_train(*_: Any, **__: Any) -> None:
    raise AssertionError("an epoch was trained again")


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("the backbone was loaded before --out was looked at")
