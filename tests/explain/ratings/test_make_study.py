"""Studies made of real runs: three lists each, of the words that they say they are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
import torch
from PIL import Image

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Item
from ipl.datasets.readers import read_dataset
from ipl.explain import baseline as baseline_module
from ipl.explain.baseline import read_baseline
from ipl.explain.loaded_run import load_run
from ipl.explain.ratings.make_study import (
    StudySettings,
    make_study,
    nearest_words,
    read_runs,
    spread,
)
from ipl.explain.ratings.study import fingerprint
from ipl.saving.format import read_run
from ipl.support.errors import ConfigError, DataError
from ipl.words.frequency import NEAR

MakeRun = Callable[..., Path]


@pytest.fixture
def how(pool_file: Path, make_run: MakeRun, pocket: Backbone) -> StudySettings:
    return StudySettings(make_run(words=0), pool_file, pocket, cache=False)


def test_three_lists_of_equal_length(
    make_run: MakeRun, scenes_folder: Path, how: StudySettings
) -> None:
    run = make_run(words=2)
    study, images = make_study([run], [scenes_folder], how)
    saved = read_run(run)
    (studied,), (task,) = study.runs, study.tasks
    assert studied.fingerprint == fingerprint(saved)
    assert studied.lists["chosen"] == saved.words
    assert [len(words) for words in studied.lists.values()] == [2, 2, 2]
    assert not set(studied.lists["random"]) & set(saved.words)
    assert NEAR > 8  # so all other words of this pool are as frequent
    assert set(task.items.values()) == {w for words in studied.lists.values() for w in words}
    assert list(task.items) == sorted(task.items)
    assert task.classes == saved.classes
    # Twelve images of three classes, small, in the order of the classes.
    assert [shown.label for shown in task.pictures] == [n for n in saved.classes for _ in range(4)]
    assert set(images) == {shown.file for shown in task.pictures}
    for data in images.values():
        assert max(Image.open(BytesIO(data)).size) <= 160
    other, _ = make_study([run], [scenes_folder], how)
    assert other.seed != study.seed
    assert not other.items & study.items
    assert other.runs == study.runs


def test_nearest_words_are_the_plain_loops(
    make_run: MakeRun, pool_file: Path, pocket: Backbone
) -> None:
    run = load_run(make_run(words=2), pocket, words_file=pool_file, cache=False)
    baseline, pool = read_baseline(run, make_run(words=0)), run.pool
    assert pool is not None
    backbone = baseline.learner.backbone
    ranked = []
    for vector in baseline.learner.soft.detach():
        cosines = [
            (float(torch.cosine_similarity(vector, backbone.embed([token])[0], dim=0)), word)
            for token, word in zip(backbone.tokenize_words(pool.words), pool.words, strict=True)
        ]
        ranked.append(sorted(cosines, reverse=True))
    firsts = [word for _, word in sorted((rank[0] for rank in ranked), reverse=True)]
    for count in (1, 2, 5, 10):
        found = nearest_words(baseline, pool, count)
        assert len(set(found)) == len(found) == count
        first = list(dict.fromkeys(firsts))[:count]
        assert list(found[: len(first)]) == first


def test_runs_of_one_task_share_it_and_their_plain_learner(
    make_run: MakeRun, scenes_folder: Path, how: StudySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run(words=2), make_run(words=1), make_run(words=1, seed=2)]
    trained, fit = [], baseline_module.train_best
    monkeypatch.setattr(
        baseline_module, "train_best", lambda *a, **k: trained.append(1) or fit(*a, **k)
    )
    study, _ = make_study(runs, [scenes_folder], replace(how, baseline=None))
    assert len(study.tasks) == 1
    assert [run.task for run in study.runs] == [0, 0, 0]
    assert len(trained) == 2  # seed 1 once, seed 2 once
    words = list(study.tasks[0].items.values())
    assert len(words) == len(set(words))
    assert "trained" in study.runs[0].plain


def test_a_prompt_saved_for_more_classes_is_rated_for_those_it_was_trained_on(
    make_run: MakeRun, scenes_folder: Path, how: StudySettings, pocket: Backbone, tmp_path: Path
) -> None:
    own = PromptClassifier.from_pretrained(make_run(words=2), pocket)
    own.with_classes([*own.classes_, "windmill"]).save_pretrained(tmp_path / "wider")
    study, _ = make_study([make_run(words=2), tmp_path / "wider"], [scenes_folder], how)
    (task,) = study.tasks
    assert task.classes == tuple(own.classes_)


def test_images_are_spread_over_the_classes() -> None:
    items = [Item(Path(f"{label}-{n}.png"), label) for label in range(30) for n in range(3)]
    some = spread(items, 12)
    assert len({item.label for item in some}) == len(some) == 12
    assert [item.label for item in some] == sorted(item.label for item in some)
    few = spread(items[:9], 7)
    assert sorted(sum(item.label == label for item in few) for label in range(3)) == [2, 2, 3]
    assert set(spread(items[:2], 12)) == set(items[:2])
    assert spread([], 12) == []


def test_an_unreadable_image_is_left_out(
    make_run: MakeRun, tmp_path: Path, how: StudySettings, scenes_folder: Path
) -> None:
    folder = tmp_path / "data"
    for item in read_dataset(scenes_folder).train:
        copy = folder / "train" / Path(str(item.path)).parent.name / Path(str(item.path)).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path(str(item.path)).read_bytes())
    next(copy.parent.glob("*.png")).write_bytes(b"broken")
    name = read_run(make_run()).classes[0]
    next((folder / "train" / name).glob("*.png")).write_bytes(b"broken")
    study, images = make_study([make_run()], [folder], how)
    assert len(study.tasks[0].pictures) == len(images) == 11


def test_other_data_is_enough_if_nothing_is_trained(
    make_run: MakeRun, scenes_folder: Path, how: StudySettings
) -> None:
    run, others = make_run(words=2), scenes_folder / "test"
    _, images = make_study([run], [others], how)
    assert len(images) == 12
    with pytest.raises(DataError, match="test does not have all of them; give that data, or"):
        make_study([run], [others], replace(how, baseline=None))


def test_what_cannot_be_a_study(
    make_run: MakeRun, scenes_folder: Path, how: StudySettings, tmp_path: Path
) -> None:
    run, bare = make_run(words=2), make_run(words=0)
    with pytest.raises(ConfigError, match="has no words; there is nothing to rate"):
        read_runs([run, bare])
    with pytest.raises(ConfigError, match="are the same"):
        read_runs([run, run])
    with pytest.raises(ConfigError, match="2 --data given for 1 run; give"):
        make_study([run], [scenes_folder, scenes_folder], how)
    with pytest.raises(DataError, match="No such file or folder"):
        make_study([run], [tmp_path / "nowhere"], how)
    with pytest.raises(ConfigError, match="give --words-file"):
        make_study([run], [scenes_folder], replace(how, words_file=None))
    with pytest.raises(ConfigError, match="has words"):
        make_study([run], [scenes_folder], replace(how, baseline=run))
