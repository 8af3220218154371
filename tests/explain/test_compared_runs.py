"""Runs side by side: accuracies on the same new images, what they share, and what differs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.display.formatting import percent, range_of_percent
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.compared_runs import (
    compare_runs,
    compare_settings,
    comparison_document,
    comparison_values,
)
from ipl.inference.evaluation import evaluate
from ipl.metrics import paired_difference
from ipl.prompts.layout import prompt_pieces
from ipl.saving.format import read_run
from ipl.support.errors import ConfigError
from ipl.training.comparison import LINEAR_PROBE, PROMPT, ZERO_SHOT, difference_sentence
from ipl.training.result import FitResult
from tests.helpers.page_check import check_page
from tests.helpers.scenes import open_scene

ABOUT_WORDS = {"interval", "placeholder", "lambda", "preset", "template", "search", "pool size"}
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
    compared = compare_runs(runs, more, device="cpu", cache=False)
    assert compared.same_classes
    assert compared.same_images
    images = compared.runs[0].right
    assert images is not None
    assert len(images) == 12
    assert all("new-" in path for path, _ in images)
    assert compared.about_accuracies[0].startswith("All were scored now on the same 12 images;")
    (note,) = compared.notes  # all training images of the first are there
    assert note.endswith("; 8 of its 36 images were training images and are left out.")
    for path in more.glob("*/t*-*"):
        path.unlink()
    evaluations = [evaluate(PromptClassifier.from_pretrained(run, pocket), more) for run in runs]
    for run, evaluation in zip(compared.runs, evaluations, strict=True):
        assert run.comparison is not None
        for name in (ZERO_SHOT, PROMPT):
            own, other = run.comparison.of(name), evaluation.comparison.of(name)
            assert own is not None
            assert other is not None
            assert own.correct == other.correct
    first, second = ({each.image: each.correct for each in e.predictions} for e in evaluations)
    gained = sum(second[image] and not first[image] for image in first)
    lost = sum(first[image] and not second[image] for image in first)
    difference = paired_difference(gained, lost, 12)
    assert compared.differences == [difference]
    sentence = f"other: {difference_sentence('coop-0w', difference)}"
    assert compared.verdict == (sentence,)
    assert sentence in as_markdown(comparison_document(compared))
    values = comparison_values(compared)
    assert values["verdict"] == [sentence]
    assert [run["minus_first"] for run in values["runs"]] == [None, asdict(difference)]
    few = compare_runs(runs, more, 5, device="cpu", cache=False)
    assert few.same_images
    assert [run["images"] for run in comparison_values(few)["runs"]] == [5, 5]


def test_runs_without_a_common_new_image_are_scored_on_their_own(
    make_run: MakeRun, other_run: Path, more: Path
) -> None:
    for path in more.glob("*/new-*"):
        path.unlink()
    compared = compare_runs([make_run("coop", 0), other_run], more, device="cpu", cache=False)
    assert [run["images"] for run in comparison_values(compared)["runs"]] == [8, 16]
    assert "these are not the same for all" in compared.about_accuracies[0]
    assert compared.verdict == ()


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
    table = saved.accuracies()
    assert table.columns[3:5] == ("zero-shot", "linear probe")
    for run, row in zip(saved.runs[:2], table.rows, strict=False):
        counts = run.result.comparison
        assert counts is not None
        assert row[1:] == (
            percent(counts.accuracy()),
            range_of_percent(*counts.interval()),
            *(percent(counts.accuracy(counts.of(name))) for name in (ZERO_SHOT, LINEAR_PROBE)),
            "16",
        )
    assert table.rows[2] == ("not tested", "-", "-", "-", "-", "0")
    assert saved.about_accuracies[0].startswith("As saved when each was trained")
    assert saved.verdict == ()
    now = compare_runs(runs[:2], six_scenes, device="cpu", cache=False)
    assert [(*row[:4], row[5]) for row in table.rows[:2]] == [*now.accuracies().rows]
    for run in now.runs:
        assert run.held_out is not None
        assert run.held_out.accuracy == pytest.approx(run.result.held_out_accuracy)


def test_other_classes_cannot_be_compared(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    hyperparameters = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    few = scenes.only(range(2), "two scenes")
    two = tmp_path / "two"
    PromptClassifier(pocket, words=0, shots=2, **hyperparameters).fit(few).save_pretrained(two)
    compared = compare_runs([make_run("coop", 0), two, two], six_scenes, device="cpu", cache=False)
    assert [run["images"] for run in comparison_values(compared)["runs"]] == [16, 8, 8]
    assert not compared.same_classes
    assert not compared.same_images
    assert f"{two} (2) and {two} (3) are the same prompt." in compared.notes
    assert compared.about_accuracies[1] in as_markdown(comparison_document(compared))
    one = replace(compared, runs=tuple(replace(r, right={}) for r in compared.runs))
    assert one.verdict == ()  # the same images, and yet not the same task


def test_the_page_and_the_words_that_runs_share(make_run: MakeRun) -> None:
    runs = [make_run("coop", 2), make_run("coop", 0), make_run("coop", 2, lambda_=0.0)]
    compared = compare_runs(runs, device="cpu")
    shared = compared.shared_words
    for word, places in shared.items():
        assert [bool(p) for p in places] == [word in run.result.words for run in compared.runs]
    assert shared[compared.runs[0].result.words[0]] == [1, 0, 1]  # lambda has no say in the first
    document = comparison_document(compared)
    text = "".join(check_page(as_html(document)).text)
    for run in compared.runs:
        assert run.name in text
        for piece in prompt_pieces(run.result.prompt):
            assert piece.text in text
    assert "The runs differ in: words" in text
    values = json.dumps(comparison_values(compared), allow_nan=False)
    hashes = [h for run in compared.runs for each in run.result.image_hashes for h in each]
    assert hashes
    assert not any(digest in values or digest in text for digest in hashes)
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs(runs[:1])


def _with_interval(result: FitResult, interval: int) -> FitResult:
    return replace(result, hyperparameters=replace(result.hyperparameters, interval=interval))


def test_settings_about_words_are_compared_among_runs_with_slots(make_run: MakeRun) -> None:
    two, none = read_run(make_run("coop", 2)), read_run(make_run("coop", 0))
    other = read_run(make_run("coop", 2, lambda_=0.0))
    plain = _with_interval(none, 10)  # which is of no meaning
    settings = compare_settings([two, plain, other])
    assert settings.differ["words"] == ["2", "0", "2"]
    assert settings.differ["lambda"] == ["0.1", "", "0.0"]
    assert settings.same["learner"] == "coop"
    assert not ABOUT_WORDS & settings.same.keys()
    settings = compare_settings([two, none])  # what only one run has is not the same in all
    assert not ABOUT_WORDS & (settings.same | settings.differ).keys()
    both = compare_settings([two, _with_interval(two, 2)])
    assert both.differ == {"interval": ["1", "2"]}
    assert compare_settings([none, plain]).differ == {}
