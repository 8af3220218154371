"""A run is loaded with its own images and its own words, or a clear message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.explain.comparison import compare_runs
from ipl.explain.loaded_run import load_run, redraw_shots
from ipl.explain.report import ReportSettings, analyse_run, report_document
from ipl.explain.report_values import report_values
from ipl.support.errors import DataError, SavedRunError
from ipl_scenes import draw

MakeRun = Callable[..., Path]


def test_other_images_are_noticed(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path, pool_file: Path
) -> None:
    run = make_run("coop", 2)
    for name in load_run(run, pocket).result.classes:
        (tmp_path / "data" / name).mkdir(parents=True)
        for index in range(60, 66):
            draw(name, index).save(tmp_path / "data" / name / f"{index}.png")
    analysis = analyse_run(
        run, tmp_path / "data", ReportSettings(0), pocket, words_file=pool_file, cache=False
    )
    assert analysis.run_images is not None
    note = analysis.run_images.notes[-1]
    assert note.startswith("These are not the images this prompt was trained on (the loss without")
    assert note.endswith("); no held-out image is one of those.")
    assert analysis.outcomes is not None
    assert analysis.outcomes.why_no_novel is not None
    images = len(analysis.run_images.shots.items)
    note = f"The linear probe was trained on {images} images of this data"
    assert note in report_document(analysis).warnings[-1]
    assert note in report_values(analysis)["outcomes"]["comparison"]["notes"][-1]


def test_a_limit_on_images_is_kept_and_told(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path
) -> None:
    analysis = analyse_run(
        make_run("coop", 0), six_scenes, ReportSettings(0, images=5), backbone=pocket
    )
    assert analysis.run_images is not None
    assert len(analysis.run_images.test.items) == 5
    assert analysis.run_images.left_out == 11


@pytest.fixture
def mixed(make_run: MakeRun, six_scenes: Path, pocket: Backbone, tmp_path: Path) -> Path:
    """Returns a folder without parts: test images first, then the training images of a run."""
    for part, prefix in (("test", "0"), ("train", "1")):
        for name in load_run(make_run("coop", 0), pocket).result.classes:
            (tmp_path / name).mkdir(exist_ok=True)
            for file in (six_scenes / part / name).iterdir():
                shutil.copy(file, tmp_path / name / f"{prefix}-{file.name}")
    return tmp_path


def test_shots_are_found_in_data_that_has_grown(
    pocket: Backbone, make_run: MakeRun, mixed: Path
) -> None:
    run = load_run(make_run("coop", 0), pocket, cache=False)
    found = redraw_shots(run, mixed)
    assert found.same_shots
    assert all(item.path.name.startswith("1-") for item in found.shots.items)
    assert all(item.path.name.startswith("0-") for item in found.rest)
    assert (len(found.shots.items), len(found.rest)) == (16, 16)
    assert found.notes == ()


def test_copies_of_shots_in_the_test_part_of_grown_data_are_left_out(
    pocket: Backbone, make_run: MakeRun, mixed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    grown = tmp_path_factory.mktemp("grown")
    shutil.copytree(mixed, grown / "train")
    for path in mixed.glob("*/*"):
        copy = grown / "test" / path.parent.name / f"copy-of-{path.name}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    found = redraw_shots(load_run(make_run("coop", 0), pocket, cache=False), grown)
    assert found.same_shots
    assert len(found.dataset.test) == 16
    assert all(item.path.name.startswith("copy-of-0-") for item in found.dataset.test)


def test_images_of_the_training_are_not_held_out_of_other_data(
    pocket: Backbone, make_run: MakeRun, mixed: Path
) -> None:
    run = load_run(make_run("coop", 2), pocket, cache=False)
    trained = sorted(mixed.glob("*/1-*"))
    trained[0].unlink()
    found = redraw_shots(run, mixed)
    assert not found.same_shots
    drawn = {item.path for item in found.shots.items}
    assert drawn.isdisjoint(item.path for item in found.rest)
    assert all(item.path.name.startswith("0-") for item in found.rest)
    count = sum(path not in drawn for path in trained[1:])
    assert found.notes[-1].endswith(f"; {count} held-out images are among those and left out.")
    older = replace(run, result=replace(run.result, image_hashes=()))
    assert "held-out images may have been used" in redraw_shots(older, mixed).notes[-1]


def test_data_without_its_classes_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        draw("lake", 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="has no class '"):
        analyse_run(make_run("coop", 0), tmp_path, backbone=pocket)


def test_a_prompt_saved_for_more_classes_is_told_by_those_it_was_trained_on(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, tmp_path: Path
) -> None:
    own = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    wider = own.with_classes(["windmill", *own.classes_[:3]])
    wider.save_pretrained(tmp_path / "wider")
    how = {"settings": ReportSettings(0), "words_file": pool_file, "cache": False}
    analysis = analyse_run(tmp_path / "wider", six_scenes, backbone=pocket, **how)
    usual = analyse_run(make_run("coop", 2), six_scenes, backbone=pocket, **how)
    assert analysis.test == usual.test
    assert analysis.effects == usual.effects
    assert usual.notes == ()
    (note,) = analysis.notes
    assert "also classifies windmill, which it was not trained on" in note
    assert f"no longer classifies {own.classes_[3]};" in note
    values = report_values(analysis)
    assert values["classes"] == list(own.classes_)
    assert values["notes"] == [note]
    assert "".join(report_document(analysis).warnings) == note
    both = compare_runs([make_run("coop", 2), tmp_path / "wider"], six_scenes, cache=False)
    assert both.runs[0].test == both.runs[1].test
    assert both.notes == ("coop-2w and wider are the same prompt.", f"wider: {note}")


def test_another_list_of_words_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("sand\nstone\n")
    with pytest.raises(DataError, match="is not the one this run chose from"):
        load_run(make_run("coop", 2), backbone=pocket, words_file=tmp_path / "words.txt")


def test_a_damaged_selection_is_told(pocket: Backbone, make_run: MakeRun, tmp_path: Path) -> None:
    run = Path(shutil.copytree(make_run("coop", 2), tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    config["selection"] = {"steps": [{"word": "sand"}]}
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(SavedRunError, match="damaged"):
        load_run(run, pocket)


def test_nothing_held_out_is_told(pocket: Backbone, make_run: MakeRun, tmp_path: Path) -> None:
    for name in load_run(make_run("coop", 0), pocket).result.classes:
        (tmp_path / name).mkdir()
        draw(name, 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="no image left to measure on: a report on other data"):
        analyse_run(make_run("coop", 0), tmp_path, backbone=pocket, cache=False)


def test_classes_in_another_order_than_the_folders_draw_the_same_shots(
    pocket: Backbone, scenes: Dataset, scenes_folder: Path, tmp_path: Path
) -> None:
    assert list(scenes.class_names) != sorted(scenes.class_names)  # folders are read in this order
    half = split_base_novel(scenes)[0]
    hyperparameters = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    run = tmp_path / "run"
    PromptClassifier(pocket, words=0, shots=2, **hyperparameters).fit(half).save_pretrained(run)
    analysis = analyse_run(run, scenes_folder, ReportSettings(0), pocket, cache=False)
    assert analysis.run_images is not None
    drawn = sample_shots(half.train, 2, seed=1)
    again = analysis.run_images.shots.items
    assert [item.path.resolve() for item in again] == [item.path.resolve() for item in drawn]
    assert analysis.run_images.notes == ()
