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
from ipl.explain.compared_runs import compare_runs
from ipl.explain.loaded_run import load_run, redraw_shots
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from ipl.explain.report_values import report_values
from ipl.inference.evaluation import evaluate
from ipl.support.errors import ConfigError, DataError
from tests.helpers.scenes import open_scene

MakeRun = Callable[..., Path]


@pytest.fixture
def others(make_run: MakeRun, pocket: Backbone, tmp_path: Path) -> Path:
    """Returns a folder of the classes of a run with six images each that it was not trained on."""
    for name in load_run(make_run("coop", 2), pocket).result.classes:
        (tmp_path / "others" / name).mkdir(parents=True)
        for index in range(40, 46):
            open_scene(name, index).save(tmp_path / "others" / name / f"{index}.png")
    return tmp_path / "others"


def test_a_report_on_other_data_uses_all_its_images(
    pocket: Backbone, make_run: MakeRun, others: Path, pool_file: Path
) -> None:
    run = make_run("coop", 2)
    analysis = analyse_run(
        run, others, ReportSettings(2), pocket, words_file=pool_file, cache=False
    )
    assert analysis.run_images is not None
    assert len(analysis.run_images.test.items) == 24
    assert analysis.run_images.notes == ("This is not the data that the prompt was trained on.",)
    classifier = PromptClassifier.from_pretrained(run, pocket)
    evaluation = evaluate(classifier, others)
    assert analysis.test is not None
    assert (evaluation.accuracy, evaluation.comparison.total) == (analysis.test.accuracy, 24)
    assert analysis.outcomes is not None
    assert analysis.outcomes.comparison.verdict == evaluation.comparison.verdict
    assert analysis.stability is None
    missing = {missing.part: missing.why for missing in analysis.missing}
    assert "the linear probe, likely label errors, near-duplicates, stability" in missing
    values = json.loads(json.dumps(report_values(analysis), allow_nan=False))
    assert values["data"]["training_images"] is None
    assert values["chance"]["places_by_loss"]["sentence_training"] is None
    with pytest.raises(ConfigError, match="plain"):
        analyse_run(run, others, ReportSettings(0, baseline="train"), pocket, words_file=pool_file)


def test_test_images_of_one_class_are_enough(
    pocket: Backbone, make_run: MakeRun, others: Path, tmp_path: Path
) -> None:
    name = sorted(path.name for path in others.iterdir())[1]
    shutil.copytree(others / name, tmp_path / "alone" / "test" / name)
    analysis = analyse_run(
        make_run("coop", 0), tmp_path / "alone", ReportSettings(0), pocket, cache=False
    )
    assert analysis.run_images is not None
    labels = [analysis.run.classes[item.label] for item in analysis.run_images.test.items]
    assert labels == [name] * 6


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
    assert found.shots is not None
    assert all(item.path.name.startswith("1-") for item in found.shots.items)
    assert all(item.path.name.startswith("0-") for item in found.held_out)
    assert (len(found.shots.items), len(found.held_out)) == (16, 16)
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
    assert found.shots is not None
    assert len(found.held_out) == 16
    assert all(item.path.name.startswith("copy-of-0-") for item in found.held_out)


def test_images_of_the_training_are_not_held_out_of_other_data(
    pocket: Backbone, make_run: MakeRun, mixed: Path
) -> None:
    run = load_run(make_run("coop", 2), pocket, cache=False)
    trained = sorted(mixed.glob("*/1-*"))
    trained[0].unlink()
    found = redraw_shots(run, mixed)
    assert found.shots is None
    assert len(found.held_out) == 16
    assert all(item.path.name.startswith("0-") for item in found.held_out)
    left_out = "15 of its 31 images were training images and are left out."
    assert found.notes == (f"This is not the data that the prompt was trained on; {left_out}",)
    changed = replace(run, result=replace(run.result, data=mixed.name))
    note, more = redraw_shots(changed, mixed).notes
    assert note == f"This data has changed since the prompt was trained; {left_out}"
    assert more.startswith(f"15 of the 16 training images are in {mixed} as they were;")


def test_data_without_its_classes_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        open_scene("lake", 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="has none of the classes that"):
        analyse_run(make_run("coop", 0), tmp_path, backbone=pocket)


def test_a_prompt_saved_for_more_classes_is_told_by_those_it_was_trained_on(
    analysis: Analysis,
    pocket: Backbone,
    make_run: MakeRun,
    six_scenes: Path,
    pool_file: Path,
    tmp_path: Path,
) -> None:
    own = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    wider = own.with_classes(["windmill", *own.classes_[:3]])
    wider.save_pretrained(tmp_path / "wider")
    how = {"settings": ReportSettings(0), "words_file": pool_file, "cache": False}
    found = analyse_run(tmp_path / "wider", six_scenes, backbone=pocket, **how)
    assert found.test == analysis.test
    assert found.effects == analysis.effects
    assert analysis.notes == ()
    (note,) = found.notes
    assert "also classifies windmill, which it was not trained on" in note
    assert f"no longer classifies {own.classes_[3]};" in note
    both = compare_runs([make_run("coop", 2), tmp_path / "wider"], six_scenes, cache=False)
    assert both.runs[0].held_out == both.runs[1].held_out
    assert both.notes == ("coop-2w and wider are the same prompt.", f"wider: {note}")


def test_another_list_of_words_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("sand\nstone\n")
    with pytest.raises(DataError, match="is not the one this run chose from"):
        load_run(make_run("coop", 2), backbone=pocket, words_file=tmp_path / "words.txt")


def test_nothing_held_out_is_told(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, tmp_path: Path
) -> None:
    for name in load_run(make_run("coop", 0), pocket).result.classes:
        shutil.copytree(six_scenes / "train" / name, tmp_path / name)
    with pytest.raises(DataError, match="no readable image that .* was not trained on"):
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
