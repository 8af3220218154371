"""A run is loaded with its own images and its own words, or a clear message."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.display.document import Document
from ipl.explain.inputs import find_images, load_run
from ipl.explain.report import make_report, report_values
from ipl.inference.evaluation import evaluate
from ipl.saving.format import read_run
from ipl.support.errors import DataError
from tests.helpers.scenes import open_scene

MakeRun = Callable[..., Path]


@pytest.fixture
def others(make_run: MakeRun, tmp_path: Path) -> Path:
    """Returns a folder of the classes of a run with six images each that it was not trained on."""
    for name in read_run(make_run("coop", 2)).classes:
        (tmp_path / "others" / name).mkdir(parents=True)
        for index in range(40, 46):
            open_scene(name, index).save(tmp_path / "others" / name / f"{index}.png")
    return tmp_path / "others"


@pytest.fixture
def mixed(make_run: MakeRun, six_scenes: Path, tmp_path: Path) -> Path:
    """Returns a folder without parts: test images first, then the training images of a run."""
    for part, prefix in (("test", "0"), ("train", "1")):
        for name in read_run(make_run("coop", 0)).classes:
            (tmp_path / name).mkdir(exist_ok=True)
            for file in (six_scenes / part / name).iterdir():
                shutil.copy(file, tmp_path / name / f"{prefix}-{file.name}")
    return tmp_path


def test_a_report_on_other_data_uses_all_its_images(
    pocket: Backbone, make_run: MakeRun, others: Path, pool_file: Path
) -> None:
    run = make_run("coop", 2)
    document = make_report(run, others, pocket, words_file=pool_file, cache=False)
    values = report_values(document)
    assert "This is not the data that the prompt was trained on" in values["notes"][0]
    assert values["data"]["training_images"] is None
    evaluation = evaluate(PromptClassifier.from_pretrained(run, pocket), others)
    assert evaluation.comparison.total == values["data"]["held_out_images"] == 24
    sections = values["sections"]
    assert sections["accuracy"]["comparison"]["verdict"] == list(evaluation.comparison.verdict)
    assert not {"data", "more", "stability"} & sections.keys()
    assert "The linear probe, label errors" in str(sections["missing"])


def test_shots_are_found_in_data_without_parts(
    pocket: Backbone, make_run: MakeRun, mixed: Path
) -> None:
    run = load_run(make_run("coop", 0), pocket, cache=False)
    found = find_images(run, mixed)
    assert found.shots is not None
    assert [item.path.name[0] for item in found.shots.items] == ["1"] * 16
    assert [item.path.name[0] for item in found.test.items] == ["0"] * 16
    assert found.notes == ()


def test_images_of_the_training_are_not_held_out_of_other_data(
    pocket: Backbone, make_run: MakeRun, mixed: Path
) -> None:
    run = load_run(make_run("coop", 2), pocket, cache=False)
    min(mixed.glob("*/1-*")).unlink()
    found = find_images(run, mixed)
    assert found.shots is None
    assert [item.path.name[0] for item in found.test.items] == ["0"] * 16
    (note,) = found.notes
    assert note.endswith("without the 15 images that it was trained on.")


def test_data_without_its_classes_or_without_a_new_image_is_refused(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        open_scene("lake", 0).save(tmp_path / "pets" / name / "0.png")
    run = make_run("coop", 0)
    with pytest.raises(DataError, match="has none of the classes that"):
        make_report(run, tmp_path / "pets", backbone=pocket)
    for name in read_run(run).classes:
        shutil.copytree(six_scenes / "train" / name, tmp_path / "trained" / name)
    with pytest.raises(DataError, match="no readable image that .* was not trained on"):
        make_report(run, tmp_path / "trained", backbone=pocket, cache=False)


def test_a_prompt_saved_for_other_classes_is_told_by_those_it_was_trained_on(
    report: Document,
    pocket: Backbone,
    make_run: MakeRun,
    six_scenes: Path,
    pool_file: Path,
    tmp_path: Path,
) -> None:
    own = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    wider = own.with_classes(["windmill", *own.classes_[:3]])
    wider.save_pretrained(tmp_path / "wider")
    document = make_report(
        *(tmp_path / "wider", six_scenes, pocket),
        words_file=pool_file,
        cache=False,
        resamples=0,
    )
    found, expected = (report_values(each)["sections"] for each in (document, report))
    assert found["accuracy"] == expected["accuracy"]
    assert "This prompt was saved for windmill" in document.warnings[0]


def test_another_list_of_words_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("sand\nstone\n")
    with pytest.raises(DataError, match="is not the one this run chose from"):
        load_run(make_run("coop", 2), backbone=pocket, words_file=tmp_path / "words.txt")
