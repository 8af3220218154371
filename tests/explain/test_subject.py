"""What a run is looked at with: its own images, its own words, or a clear sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.display.html import as_html
from ipl.display.markdown import as_markdown
from ipl.explain.analysis import ReportSettings, analyse_run
from ipl.explain.comparison import compare_runs
from ipl.explain.comparison_document import comparison_document
from ipl.explain.loaded_run import load_run
from ipl.explain.report import report_document
from ipl.explain.values import report_values
from ipl.support.errors import ConfigError, DataError, SavedRunError
from ipl_scenes import draw

MakeRun = Callable[..., Path]


def test_without_data_it_says_what_is_missing(pocket: Backbone, make_run: MakeRun) -> None:
    found = analyse_run(make_run("coop", 2), backbone=pocket)
    assert found.effects is None
    assert found.outcomes is None
    assert [word.word for word in found.words] == list(found.subject.words)
    assert found.vectors.vectors[0].moved is not None
    told = " ".join(f"{missing.part}: {missing.why}" for missing in found.missing)
    assert "--data" in told
    assert "--words-file" in told
    assert "--plain" in told


def test_other_images_are_noticed(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path, pool_file: Path
) -> None:
    run = make_run("coop", 2)
    for name in load_run(run, pocket).saved.classes:
        (tmp_path / "data" / name).mkdir(parents=True)
        for index in range(60, 66):
            draw(name, index).save(tmp_path / "data" / name / f"{index}.png")
    found = analyse_run(
        run, tmp_path / "data", ReportSettings(0), pocket, words_file=pool_file, cache=False
    )
    assert found.run_images is not None
    assert "not the images this prompt was trained on" in found.run_images.notes[-1]
    assert found.outcomes is not None
    assert found.outcomes.why_no_novel is not None


def test_a_limit_on_images_is_kept_and_told(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path
) -> None:
    found = analyse_run(
        make_run("coop", 0), six_scenes, ReportSettings(0, images=5), backbone=pocket
    )
    assert found.run_images is not None
    assert len(found.run_images.test.items) == 5
    assert found.run_images.left_out == 11


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
    found = analyse_run(tmp_path / "wider", six_scenes, backbone=pocket, **how)
    usual = analyse_run(make_run("coop", 2), six_scenes, backbone=pocket, **how)
    assert found.test == usual.test
    assert found.effects == usual.effects
    assert usual.notes == ()
    (note,) = found.notes
    assert "also classifies windmill, which it was not trained on" in note
    assert f"no longer classifies {own.classes_[3]};" in note
    values = report_values(found)
    assert values["classes"] == list(own.classes_)
    assert values["notes"] == [note]
    assert "".join(report_document(found).warnings) == note
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


def test_a_plain_run_must_be_plain_and_alike(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="has words"):
        analyse_run(
            make_run("coop", 2),
            backbone=pocket,
            settings=ReportSettings(plain=str(make_run("coop", 2))),
        )
    with pytest.raises(ConfigError, match="give --data"):
        analyse_run(make_run("coop", 2), backbone=pocket, settings=ReportSettings(plain="train"))


@pytest.mark.parametrize("bad", [{"resamples": -1}, {"images": 0}])
def test_settings_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ReportSettings(**bad)


def test_compared_runs(pocket: Backbone, make_run: MakeRun, six_scenes: Path) -> None:
    runs = [make_run("coop", 2), make_run("coop", 0), make_run("coop", 2, lambda_=0.0)]
    found = compare_runs(runs, six_scenes, device="cpu", cache=False)
    differ = dict(found.differ)
    assert differ["words"] == ("2", "0", "2")
    assert differ["lambda"] == ("0.1", "", "0.0")
    assert dict(found.same)["learner"] == "coop"
    for run in found.runs:
        assert run.test is not None
        assert run.accuracy() == pytest.approx(run.saved.results["held_out_accuracy"])
    for word, places in found.shared:
        assert [bool(p) for p in places] == [word in run.saved.words for run in found.runs]
    first = found.runs[0].saved.words[0]  # lambda has no say in the first word
    assert (first, (1, 0, 1)) in found.shared
    assert found.runs[0].name != found.runs[2].name
    order = [(-sum(map(bool, p)), min(filter(None, p)), word) for word, p in found.shared]
    assert order == sorted(order)


def test_other_classes_cannot_be_compared(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    recipe = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    few = scenes.only(range(2), "two scenes")
    PromptClassifier(pocket, words=0, shots=2, **recipe).fit(few).save_pretrained(tmp_path / "two")
    runs = [make_run("coop", 0), tmp_path / "two", tmp_path / "two"]
    found = compare_runs(runs, six_scenes, device="cpu", cache=False)
    assert [run.images for run in found.runs] == [16, 8, 8]
    assert not found.same_classes
    assert not found.same_images
    assert "interval" not in dict(found.differ) | dict(found.same)  # no word enters at one
    two = tmp_path / "two"
    assert f"{two} (2) and {two} (3) are the same prompt." in found.notes
    text = as_markdown(comparison_document(found))
    assert "accuracies over different classes cannot be compared" in text
    assert "4 classes, 16 images" in as_html(comparison_document(found))
    alike = compare_runs([runs[0], make_run("coop", 2)], six_scenes, device="cpu", cache=False)
    assert alike.same_classes
    assert alike.same_images
    assert "cannot be compared" not in as_markdown(comparison_document(alike))


def test_one_run_is_no_comparison(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs([make_run("coop", 0)])


def test_nothing_held_out_is_told(pocket: Backbone, make_run: MakeRun, tmp_path: Path) -> None:
    for name in load_run(make_run("coop", 0), pocket).saved.classes:
        (tmp_path / name).mkdir()
        draw(name, 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="no readable image that training did not see"):
        analyse_run(make_run("coop", 0), tmp_path, backbone=pocket, cache=False)


def test_classes_in_another_order_than_the_folders_draw_the_same_shots(
    pocket: Backbone, scenes: Dataset, scenes_folder: Path, tmp_path: Path
) -> None:
    assert list(scenes.class_names) != sorted(scenes.class_names)  # folders are read in this order
    half = split_base_novel(scenes)[0]
    recipe = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    run = tmp_path / "run"
    PromptClassifier(pocket, words=0, shots=2, **recipe).fit(half).save_pretrained(run)
    found = analyse_run(run, scenes_folder, ReportSettings(0), pocket, cache=False)
    assert found.run_images is not None
    drawn = sample_shots(half.train, 2, seed=1)
    again = found.run_images.shots.items
    assert [item.path.resolve() for item in again] == [item.path.resolve() for item in drawn]
    assert found.run_images.notes == ()
