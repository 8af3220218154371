"""What a run is looked at with: its own pictures, its own words, or a clear sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.analysis import Settings, analyse, compare_runs
from ipl.analysis.subject import open_run
from ipl.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets import Dataset, sample_shots, split_base_novel
from ipl.datasets.scenes import draw
from ipl.errors import ConfigError, DataError, SavedRunError

MakeRun = Callable[..., Path]


def test_without_data_it_says_what_is_missing(pocket: Backbone, make_run: MakeRun) -> None:
    found = analyse(make_run("coop", 2), backbone=pocket)
    assert found.effects is None
    assert found.outcomes is None
    assert [word.word for word in found.words] == list(found.subject.words)
    assert found.vectors.vectors[0].moved is not None
    told = " ".join(f"{missing.part}: {missing.why}" for missing in found.missing)
    assert "--data" in told
    assert "--words-file" in told
    assert "--plain" in told


def test_other_pictures_are_noticed(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path, pool_file: Path
) -> None:
    run = make_run("coop", 2)
    for name in open_run(run, pocket).saved.classes:
        (tmp_path / "data" / name).mkdir(parents=True)
        for index in range(60, 66):
            draw(name, index).save(tmp_path / "data" / name / f"{index}.png")
    found = analyse(run, tmp_path / "data", Settings(0), pocket, words_file=pool_file, cache=False)
    assert found.pictures is not None
    assert "not the pictures this prompt was trained on" in found.pictures.notes[-1]
    assert found.outcomes is not None
    assert found.outcomes.why_no_novel is not None


def test_a_limit_on_pictures_is_kept_and_told(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path
) -> None:
    found = analyse(make_run("coop", 0), six_scenes, Settings(0, images=5), backbone=pocket)
    assert found.pictures is not None
    assert len(found.pictures.test.items) == 5
    assert found.pictures.left_out == 11


def test_data_without_its_classes_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        draw("lake", 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="has no class '"):
        analyse(make_run("coop", 0), tmp_path, backbone=pocket)


def test_another_list_of_words_is_refused(
    pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("sand\nstone\n")
    with pytest.raises(DataError, match="is not the one this run chose from"):
        open_run(make_run("coop", 2), backbone=pocket, words_file=tmp_path / "words.txt")


def test_a_damaged_selection_is_told(pocket: Backbone, make_run: MakeRun, tmp_path: Path) -> None:
    run = Path(shutil.copytree(make_run("coop", 2), tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    config["selection"] = {"steps": [{"word": "sand"}]}
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(SavedRunError, match="damaged"):
        open_run(run, pocket)


def test_a_plain_run_must_be_plain_and_alike(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="has words"):
        analyse(
            make_run("coop", 2), backbone=pocket, settings=Settings(plain=str(make_run("coop", 2)))
        )
    with pytest.raises(ConfigError, match="give --data"):
        analyse(make_run("coop", 2), backbone=pocket, settings=Settings(plain="train"))


@pytest.mark.parametrize("bad", [{"resamples": -1}, {"images": 0}])
def test_settings_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Settings(**bad)


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


def test_one_run_is_no_comparison(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs([make_run("coop", 0)])


def test_nothing_held_out_is_told(pocket: Backbone, make_run: MakeRun, tmp_path: Path) -> None:
    for name in open_run(make_run("coop", 0), pocket).saved.classes:
        (tmp_path / name).mkdir()
        draw(name, 0).save(tmp_path / name / "0.png")
    with pytest.raises(DataError, match="no readable picture that training did not see"):
        analyse(make_run("coop", 0), tmp_path, backbone=pocket, cache=False)


def test_classes_in_another_order_than_the_folders_draw_the_same_shots(
    pocket: Backbone, scenes: Dataset, scenes_folder: Path, tmp_path: Path
) -> None:
    assert list(scenes.class_names) != sorted(scenes.class_names)  # folders are read in this order
    half = split_base_novel(scenes)[0]
    recipe = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    run = tmp_path / "run"
    PromptClassifier(pocket, words=0, shots=2, **recipe).fit(half).save_pretrained(run)
    found = analyse(run, scenes_folder, Settings(0), pocket, cache=False)
    assert found.pictures is not None
    drawn = sample_shots(half.train, 2, seed=1)
    again = found.pictures.shots.items
    assert [item.path.resolve() for item in again] == [item.path.resolve() for item in drawn]
    assert found.pictures.notes == ()
