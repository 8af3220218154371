"""The command that makes a run again."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.config import FitConfig, settings
from ipl.datasets.dataset import Dataset
from ipl.explain.provenance import fit_command
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from ipl.training.result import FitResult
from ipl.words.pool import Pool
from tests.helpers.saved_runs import make_result


@pytest.fixture
def result() -> FitResult:
    """Returns a run with settings that are all defaults but the seed."""
    return make_result(config=FitConfig(words=1, seed=3), data="my data")


def test_defaults_are_left_out(result: FitResult) -> None:
    command, unsaid = fit_command(result, Pool.bundled(), "my images")
    assert command == "ipl fit 'my images' --words 1 --seed 3"
    assert unsaid == ()


@pytest.mark.parametrize(
    ("learner", "words", "shown"),
    [
        ("coop", 2, {"interval", "placeholder"}),
        ("promptsrc", 0, {"average_mean", "average_std"}),
    ],
)
def test_settings_that_mean_nothing_to_a_run_are_not_shown(
    pocket: Backbone, make_run: Callable[..., Path], learner: str, words: int, shown: set[str]
) -> None:
    made = analyse_run(make_run(learner, words), backbone=pocket).provenance
    names = {"interval", "placeholder", "average_mean", "average_std"}
    assert names & dict(made.settings).keys() == shown
    assert dict(made.settings)["epochs"] == "2"


def test_chance_is_explained_beside_the_losses(result: FitResult) -> None:
    centre = replace(result, config=replace(result.config, views=0))
    assert replace(centre, images=64).about_losses == replace(centre, images=5).about_losses == ""
    dropped, crops = "trains on 32 of the 40 images", "sees other random crops"
    sentence = replace(centre, images=40).about_losses
    assert dropped in sentence
    assert crops not in sentence
    both = replace(result, images=40).about_losses
    assert dropped in both
    assert crops in both
    assert dropped not in replace(result, images=64).about_losses


def test_everything_else_is_named(result: FitResult) -> None:
    config = FitConfig(
        backbone="o/clip", words=1, epochs=12, lr=0.1, shots=4, views="fresh", precision="bf16",
        placeholder="zero", lambda_=0.5, preset="reference", word_embedding="token",
        search="exhaustive", template="a {cls}; {words}", device="cpu", cache=False,
    )  # fmt: skip
    command, unsaid = fit_command(replace(result, config=config), None, None)
    options = shlex.split(command)
    for setting in settings():
        value = getattr(config, setting.name)
        if setting.changes_result and value != setting.default:
            assert options[options.index(str(setting.flag)) + 1] == str(value)
    assert "--device" not in options
    assert "--no-cache" not in options
    text = " ".join(unsaid)
    assert "--words-file" in text
    assert "'my data', with the 2 classes of the run and no others." in text


def test_a_list_of_words_is_named(result: FitResult) -> None:
    own = Pool.from_words(("sand",), "the word list mine.txt")
    command, unsaid = fit_command(result, own, "d", "my words.txt")
    assert "--words-file 'my words.txt'" in command
    assert unsaid == ()


def test_data_with_more_classes_than_the_run_has_no_command(analysis: Analysis) -> None:
    assert analysis.provenance.command is None
    (sentence,) = analysis.provenance.unsaid
    assert "ipl fit would learn all 6 classes of" in sentence


def test_data_in_another_order_draws_other_shots(
    pocket: Backbone, scenes: Dataset, tmp_path: Path
) -> None:
    two = scenes.only([1, 0], "two")
    for item in two.train:
        copy = tmp_path / "data" / two.class_names[item.label] / item.path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(item.path, copy)
    quick = {"words": 0, "epochs": 1, "shots": 2, "views": 0, "cache": False}
    PromptClassifier(pocket, **quick).fit(two).save_pretrained(tmp_path / "run")
    made = analyse_run(
        tmp_path / "run", tmp_path / "data", ReportSettings(0), pocket, cache=False
    ).provenance
    assert made.command is not None
    assert made.command.startswith(f"ipl fit {tmp_path / 'data'}")
    assert made.unsaid == (
        "This data has the classes in another order than the run: other shots are drawn.",
    )


def test_the_command_on_data_that_has_changed_and_on_other_data(
    pocket: Backbone, make_run: Callable[..., Path], six_scenes: Path, tmp_path: Path
) -> None:
    grown = tmp_path / "grown"
    for name in PromptClassifier.from_pretrained(make_run("coop", 0), pocket).classes_:
        shutil.copytree(six_scenes / "test" / name, grown / "test" / name)
        shutil.copytree(six_scenes / "train" / name, grown / "train" / name)
        for path in (six_scenes / "test" / name).iterdir():
            (grown / "train" / name / f"0-{path.name}").write_bytes(path.read_bytes() + b" ")
    run, settings = make_run("coop", 0), ReportSettings(0, images=8)
    analysis = analyse_run(run, grown, settings, pocket, cache=False)
    assert analysis.provenance.unsaid == (
        "This data has changed since the training: other shots are drawn.",
    )
    for path in grown.glob("train/*/*"):
        if not path.name.startswith("0-"):
            path.unlink()
    analysis = analyse_run(run, grown, settings, pocket, cache=False)
    assert str(analysis.provenance.command).startswith("ipl fit DATA")
