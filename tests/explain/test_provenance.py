"""The command that makes a run again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.config import FitConfig, settings
from ipl.display.document import Document
from ipl.explain.data import ReportData
from ipl.explain.provenance import fit_command
from ipl.explain.report import report_values
from ipl.explain.run import LoadedRun, RunImages
from tests.helpers.saved_runs import make_result

DATA = ReportData(None)


@pytest.fixture
def saved(loaded: LoadedRun) -> LoadedRun:
    """Returns a run with settings that are all defaults but the seed."""
    config = FitConfig(learner="coop", words=1, seed=3)
    return replace(loaded, result=make_result(config=config, data="my data"))


def test_defaults_are_left_out(saved: LoadedRun, run_images: RunImages) -> None:
    images = replace(run_images, classes=saved.classes)
    command, unsaid = fit_command(saved, replace(DATA, path=Path("my images"), images=images))
    assert shlex.split(command)[:3] == ["ipl", "fit", "my images"]
    assert "--seed 3" in command
    assert "--lr" not in command
    assert unsaid == []


def test_every_other_setting_is_named(saved: LoadedRun) -> None:
    config = FitConfig(
        backbone="o/clip", words=1, epochs=12, lr=0.1, shots=4, views="fresh", precision="bf16",
        placeholder="zero", lambda_=0.5, preset="reference", word_embedding="token",
        search="exhaustive", template="a {cls}; {words}", device="cpu", cache=False,
    )  # fmt: skip
    run = replace(saved, result=replace(saved.result, config=config), pool=None)
    command, unsaid = fit_command(run, DATA)
    options = shlex.split(command)
    assert options[:3] == ["ipl", "fit", "DATA"]
    for setting in settings():
        value = getattr(config, setting.name)
        if setting.changes_result and value != setting.default:
            assert options[options.index(str(setting.flag)) + 1] == str(value)
    assert "--device" not in options
    assert "--words-file" in " ".join(unsaid)
    given = fit_command(run, replace(DATA, words_file=Path("my words.txt")))
    assert "--words-file 'my words.txt'" in given[0]


def test_data_with_more_classes_than_the_run_has_no_command(report: Document) -> None:
    made = report_values(report)["sections"]["made"]
    assert made["command"] == ""
    assert "all 6 classes" in made["unsaid"][0]
