"""Accuracies of several runs: on the same new images where that is possible."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.display.formatting import percent
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.compared_accuracies import (
    accuracy_notes,
    accuracy_table,
    differences,
    verdict,
)
from ipl.explain.comparison import compare_runs, comparison_document, comparison_values
from ipl.inference.evaluation import evaluate
from ipl.metrics import paired_difference
from ipl.training.comparison import difference_sentence
from tests.helpers.scenes import open_scene

MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def other_run(pocket: Backbone, scenes: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a run of the same four classes, in another order, trained on the test images."""
    four = scenes.only([2, 0, 3, 1], "four scenes")
    how = {"epochs": 1, "views": 0, "cache": False, "batch": 8, "shots": 4}
    folder = tmp_path_factory.mktemp("other") / "other"
    turned = replace(four, train=four.test, test=())
    PromptClassifier(pocket, words=0, **how).fit(turned).save_pretrained(folder)
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
    comparison = compare_runs(runs, more, device="cpu", cache=False)
    assert comparison.same_classes
    assert comparison.same_images
    assert [run.images for run in comparison.runs] == [12, 12]
    assert comparison.runs[0].image_paths is not None
    assert all("new-" in path for path in comparison.runs[0].image_paths)
    assert accuracy_notes(comparison.runs)[0].startswith(
        "All were scored now on the same 12 images; images that one of them is known to have "
        "been trained on are left out for all. 95 % intervals"
    )
    other = "This is not the data that the prompt was trained on"
    assert comparison.notes == (  # all training images of the first are there
        f"other: {other}; 8 of its 36 images were training images and are left out.",
    )
    for path in more.glob("*/t*-*"):
        path.unlink()
    evaluations = [evaluate(PromptClassifier.from_pretrained(run, pocket), more) for run in runs]
    for run, evaluation in zip(comparison.runs, evaluations, strict=True):
        assert evaluation.comparison.total == 12
        assert run.accuracy() == evaluation.accuracy
    first, second = ({each.image: each.correct for each in e.predictions} for e in evaluations)
    gained = sum(second[image] and not first[image] for image in first)
    lost = sum(first[image] and not second[image] for image in first)
    difference = paired_difference(gained, lost, 12)
    assert differences(comparison.runs) == [difference]
    sentence = f"other: {difference_sentence('coop-0w', difference)}"
    assert verdict(comparison.runs) == (sentence,)
    assert sentence in as_markdown(comparison_document(comparison))
    values = comparison_values(comparison)
    assert values["verdict"] == [sentence]
    assert [run["minus_first"] for run in values["runs"]] == [None, asdict(difference)]
    few = compare_runs(runs, more, 5, device="cpu", cache=False)
    assert few.same_images
    assert few.runs[0].images == 5


def test_runs_without_a_common_new_image_are_scored_on_their_own(
    make_run: MakeRun, other_run: Path, more: Path
) -> None:
    for path in more.glob("*/new-*"):
        path.unlink()
    runs = [make_run("coop", 0), other_run]
    comparison = compare_runs(runs, more, device="cpu", cache=False)
    assert [run.images for run in comparison.runs] == [8, 16]
    assert "these are not the same for all" in accuracy_notes(comparison.runs)[0]
    assert verdict(comparison.runs) == ()
    saved = compare_runs(runs, device="cpu", cache=False)
    assert verdict(saved.runs) == ()
    assert comparison_values(saved)["runs"][1]["minus_first"] is None


def test_accuracies_stand_beside_what_they_must_beat(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    four = scenes.only(range(4), "four scenes")
    drawn = {"class_template": "a drawing of a {}.", "epochs": 1, "views": 0, "cache": False}
    for name, data in (("drawing", four), ("not tested", replace(four, test=()))):
        PromptClassifier(pocket, words=0, shots=4, batch=8, **drawn).fit(data).save_pretrained(
            tmp_path / name
        )
    runs = [make_run("coop", 2), tmp_path / "drawing", tmp_path / "not tested"]
    saved = compare_runs(runs, device="cpu", cache=False)
    table = accuracy_table(saved.runs)
    assert table.columns[1:] == (
        "accuracy",
        "95 % interval",
        "zero-shot",
        "linear probe",
        "images",
    )
    for run, row in zip(saved.runs[:2], table.rows, strict=False):
        counts = run.result.comparison
        assert counts is not None
        low, high = counts.interval(counts.prompt)
        beaten = [counts.accuracy(counts.methods[n]) for n in (0, 1)]
        assert row[1:] == (
            percent(counts.accuracy(counts.prompt)),
            f"{100 * low:.1f} to {100 * high:.1f}",
            *map(percent, beaten),
            "16",
        )
    assert table.rows[2] == ("not tested", "-", "-", "-", "-", "0")
    assert accuracy_notes(saved.runs)[0].startswith("As saved when each was trained")
    now = compare_runs(runs[:2], six_scenes, device="cpu", cache=False)
    assert [(*row[:4], row[5]) for row in table.rows[:2]] == [*accuracy_table(now.runs).rows]
    low, high = comparison_values(now)["runs"][0]["interval"]
    assert 0 <= low < high <= 1
    assert comparison_values(saved)["runs"][2]["interval"] is None


def test_other_classes_cannot_be_compared(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    hyperparameters = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    few = scenes.only(range(2), "two scenes")
    PromptClassifier(pocket, words=0, shots=2, **hyperparameters).fit(few).save_pretrained(
        tmp_path / "two"
    )
    runs = [make_run("coop", 0), tmp_path / "two", tmp_path / "two"]
    comparison = compare_runs(runs, six_scenes, device="cpu", cache=False)
    assert [run.images for run in comparison.runs] == [16, 8, 8]
    assert not comparison.same_classes
    assert not comparison.same_images
    two = tmp_path / "two"
    assert f"{two} (2) and {two} (3) are the same prompt." in comparison.notes
    text = as_markdown(comparison_document(comparison))
    assert "accuracies over different classes cannot be compared" in text
    assert accuracy_notes(comparison.runs)[1] in text
    assert "4 classes, 16 images" in as_html(comparison_document(comparison))
    alike = compare_runs([runs[0], make_run("coop", 2)], six_scenes, device="cpu", cache=False)
    assert alike.same_classes
    assert alike.same_images
    assert "cannot be compared" not in as_markdown(comparison_document(alike))
    assert verdict(comparison.runs) == ()
    one = [replace(run, image_paths=("a.png",), right=(True,)) for run in comparison.runs]
    assert verdict(one) == ()  # the same image, and yet not the same task
