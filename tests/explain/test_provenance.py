"""The command that makes a run again."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipl.config import FitConfig, settings
from ipl.display.document import Document
from ipl.explain.inputs import LoadedRun, ReportData, RunImages
from ipl.explain.provenance import fit_command
from ipl.explain.report import report_values
from tests.helpers.saved_runs import make_result


@pytest.fixture
def saved(loaded: LoadedRun) -> Callable[..., ReportData]:
    """Returns saved(config, **more): a run with this config, as reports have it."""

    def make(config: FitConfig, images: RunImages | None = None, **more: Any) -> ReportData:
        classifier = copy.copy(loaded.classifier)
        classifier.result_ = make_result(config=config, data="my data")
        if images is not None:
            images = replace(images, classes=classifier.result_.trained_classes)
        run = replace(loaded, classifier=classifier, pool=None)
        return ReportData(run, None, images=images, **more)

    return make


def test_defaults_are_left_out(saved: Callable[..., ReportData], run_images: RunImages) -> None:
    config = FitConfig(learner="coop", words=1, seed=3)
    command, _ = fit_command(saved(config, run_images, path=Path("my images")))
    assert shlex.split(command)[:3] == ["ipl", "fit", "my images"]
    assert "--seed 3" in command
    assert "--lr" not in command


def test_every_other_setting_is_named(saved: Callable[..., ReportData]) -> None:
    config = FitConfig(
        backbone="o/clip", words=1, epochs=12, lr=0.1, shots=4, views="fresh", precision="bf16",
        placeholder="zero", lambda_=0.5, preset="reference", word_embedding="token",
        search="exhaustive", template="a {cls}; {words}", device="cpu", cache=False,
    )  # fmt: skip
    command, unsaid = fit_command(saved(config))
    options = shlex.split(command)
    assert options[:3] == ["ipl", "fit", "DATA"]
    for setting in settings():
        value = getattr(config, setting.name)
        if setting.changes_result and value != setting.default:
            assert options[options.index(str(setting.flag)) + 1] == str(value)
    assert "--device" not in options
    assert "--words-file" in " ".join(unsaid)
    given, unsaid = fit_command(saved(config, words_file=Path("my words.txt")))
    assert "--words-file 'my words.txt'" in given
    assert "--words-file" not in " ".join(unsaid)


def test_data_with_more_classes_than_the_run_has_no_command(report: Document) -> None:
    made = report_values(report)["sections"]["made"]
    assert made["command"] == ""
    assert "all 6 classes" in made["unsaid"][0]
