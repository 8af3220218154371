"""Runs side by side: accuracies on the images that are new to all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.explain.report import report_values
from ipl.explain.several_runs import compare_runs
from ipl.inference.evaluation import evaluate
from ipl.metrics import paired_difference
from ipl.support.errors import ConfigError
from ipl.training.comparison import difference_sentence
from tests.helpers.scenes import open_scene

QUICK = {"learner": "coop", "epochs": 1, "views": 0, "cache": False, "batch": 8, "words": 0}
MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def other_run(pocket: Backbone, scenes: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a run of the same four classes, in another order, trained on the test images."""
    four = scenes.only([2, 0, 3, 1], "four scenes")
    folder = tmp_path_factory.mktemp("other") / "other"
    turned = replace(four, train=four.test, test=four.train)
    PromptClassifier(pocket, shots=4, **QUICK).fit(turned).save_pretrained(folder)
    return folder


@pytest.fixture
def more(scenes: Dataset, tmp_path: Path) -> Path:
    """Returns four classes of three new images, the images of one run, and two of the other."""
    for label, name in enumerate(scenes.class_names[:4]):
        folder = tmp_path / "more" / name
        folder.mkdir(parents=True)
        for index in range(40, 43):
            open_scene(name, index).save(folder / f"new-{index}.png")
        for part, count in (("train", 4), ("test", 2)):
            items = [item for item in getattr(scenes, part) if item.label == label]
            for item in items[:count]:
                shutil.copy(item.path, folder / f"{part}-{item.path.name}")
    return tmp_path / "more"


def test_runs_are_scored_on_the_images_that_are_new_to_all_of_them(
    pocket: Backbone, make_run: MakeRun, other_run: Path, more: Path
) -> None:
    runs = [make_run("coop", 0), other_run]
    document = compare_runs(runs, more, device="cpu", cache=False)
    values = report_values(document)
    (note,) = document.warnings  # all training images of the first are there
    assert note.endswith("without the 8 images that it was trained on.")
    for path in more.glob("*/t*-*"):
        path.unlink()
    evaluations = [evaluate(PromptClassifier.from_pretrained(run, pocket), more) for run in runs]
    for run, evaluation in zip(values["runs"], evaluations, strict=True):
        assert (run["accuracy"], run["images"]) == (evaluation.accuracy, 12)
    first, second = ({each.image: each.correct for each in e.predictions} for e in evaluations)
    gained = sum(second[image] and not first[image] for image in first)
    lost = sum(first[image] and not second[image] for image in first)
    difference = paired_difference(gained, lost, 12)
    assert values["minus_first"] == [asdict(difference)]
    assert values["verdict"] == [f"other: {difference_sentence('coop-0w', difference)}"]
    assert values["verdict"][0] in document.lead


def test_other_classes_cannot_be_compared(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    few, two = scenes.only(range(2), "two scenes"), tmp_path / "two"
    PromptClassifier(pocket, shots=2, **QUICK).fit(few).save_pretrained(two)
    with pytest.raises(ConfigError, match="cannot be compared"):
        compare_runs([make_run("coop", 0), two], six_scenes)
    saved = report_values(compare_runs([make_run("coop", 0), two]))
    assert saved["verdict"] == saved["minus_first"] == []
    assert [run["words"] for run in saved["runs"]] == [[], []]
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs([two])
