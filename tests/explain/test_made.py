"""The command that makes a run again."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset
from ipl.display.markdown import as_markdown
from ipl.explain.analysis import ReportSettings, analyse_run
from ipl.explain.provenance import fit_command
from ipl.explain.report import report_document
from ipl.saving.format import SavedPrompt
from ipl.words.pool import Pool

CHOICE = {
    "lambda_": 0.5,
    "preset": "reference",
    "word_embedding": "token",
    "search": "screen",
    "template": "a {cls}; {words}",
}


def _saved() -> SavedPrompt:
    return SavedPrompt(
        learner="coop",
        prompt="[V V] *sand* [V V] {cls}.",
        words=("sand",),
        placeholder="token",
        backbone={"name": "pocket", "weights_sha256": "0"},
        preprocessing={},
        classes=("a", "b"),
        training={
            "data": "my data",
            "epochs": 100,
            "interval": 10,
            "batch": 32,
            "lr": 0.002,
            "m": 2,
            "depth": 1,
            "shots": 16,
            "views": 8,
            "seed": 3,
        },
        results={"words_tried": [{}]},
        selection={"lambda_": 0.1, "preset": "paper", "word_embedding": "text", "search": "exact"},
        ipl_version="0",
    )


def test_defaults_are_not_said() -> None:
    command, unsaid = fit_command(_saved(), Pool.bundled(), "my images")
    assert command == "ipl fit 'my images' --learner coop --words 1 --seed 3"
    assert unsaid == ()


def test_everything_else_is() -> None:
    saved = _saved()
    training = {**saved.training, "epochs": 7, "lr": 0.1, "shots": 4, "views": "fresh"}
    backbone = {"name": "o/clip", "weights_sha256": "0", "precision": "bf16"}
    saved = replace(
        saved, training=training, backbone=backbone, selection=CHOICE, placeholder="zero"
    )
    command, unsaid = fit_command(saved, None, None)
    said = shlex.split(command)
    for option, value in {
        "--epochs": "7",
        "--lr": "0.1",
        "--shots": "4",
        "--views": "fresh",
        "--backbone": "o/clip",
        "--precision": "bf16",
        "--placeholder": "zero",
        "--lambda": "0.5",
        "--preset": "reference",
        "--word-embedding": "token",
        "--search": "screen",
        "--template": "a {cls}; {words}",
    }.items():
        assert said[said.index(option) + 1] == value
    told = " ".join(unsaid)
    assert "shortlist" in told
    assert "--words-file" in told
    assert "'my data', with the 2 classes of the run and no others." in told


def test_auto_and_pools() -> None:
    saved = replace(_saved(), results={"words_tried": [{}, {}]})
    command, _ = fit_command(saved, Pool.bundled().without_names(), "d")
    assert "--words auto" in command
    assert "--no-names" in command
    own = Pool.from_words(("sand",), "the word list mine.txt")
    command, unsaid = fit_command(saved, own, "d", "my words.txt")
    assert "--words-file 'my words.txt'" in command
    assert "--no-names" not in command
    assert unsaid == ()


def test_data_with_more_classes_than_the_run_has_no_command(
    pocket: Backbone, make_run: Callable[..., Path], six_scenes: Path, tmp_path: Path
) -> None:
    run, five = make_run("coop", 0), Path(shutil.copytree(six_scenes, tmp_path / "five"))
    for part in ("train", "test"):
        shutil.move(five / part / "volcano", tmp_path / f"{part} volcano")
    for data, classes in ((six_scenes, 6), (five, 5)):
        found = analyse_run(run, data, ReportSettings(0, images=8), pocket, cache=False)
        assert found.made.command is None
        assert found.made.unsaid == (
            f"No command makes the run again: ipl fit would learn all {classes} classes of {data}, "
            "and the run had 4 of them.",
        )
        text = as_markdown(report_document(found))
        assert text.count("makes the run again") == 1
        assert f"learn all {classes} classes" in text


def test_data_in_another_order_draws_other_shots(
    pocket: Backbone, scenes: Dataset, tmp_path: Path
) -> None:
    two = scenes.only([1, 0], "two")
    for item in two.test:
        copy = tmp_path / "data" / two.class_names[item.label] / item.path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(item.path, copy)
    quick = {"words": 0, "epochs": 1, "shots": 2, "views": 0, "cache": False}
    PromptClassifier(pocket, **quick).fit(two).save_pretrained(tmp_path / "run")
    made = analyse_run(
        tmp_path / "run", tmp_path / "data", ReportSettings(0), pocket, cache=False
    ).made
    assert made.command is not None
    assert made.unsaid == (
        "This data has the classes in another order than the run: other shots are drawn.",
    )
