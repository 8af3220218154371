"""Every learner through fit, predict, with_classes, saving and loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ipl import Pool, PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset
from ipl.support.errors import ConfigError

POOL = Pool.from_words(("blue", "furry", "remote", "title"), "test")
FAST: dict[str, Any] = {"epochs": 2, "interval": 1, "batch": 3, "shots": 2, "pool": POOL}


@pytest.fixture(scope="module")
def three(scenes: Dataset) -> Dataset:
    return scenes.only([0, 1, 2], "three")


@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("learner", ["cocoop", "kgcoop", "maple", "promptsrc"])
def test_fit_predict_save_and_load(
    learner: str, words: int, pocket: Backbone, three: Dataset, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in pocket.model.state_dict().items()}
    classifier = PromptClassifier(pocket, learner, words, views=2, **FAST).fit(three)
    for name, value in pocket.model.state_dict().items():
        assert torch.equal(value, before[name]), name  # only prompts train
    assert len(classifier.words_) == words
    assert [e.word for e in classifier.result_.history.epochs] == [*classifier.words_, None, None][
        :2
    ]
    paths = [item.path for item in three.test[:4]]
    expected = classifier.predict_proba(paths)
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-5)
    right = [item.label for item in three.test]
    guess = classifier.predict_proba([item.path for item in three.test]).argmax(1)
    assert classifier.score(three) == pytest.approx(float(np.mean(guess == right)))
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    np.testing.assert_allclose(again.predict_proba(paths), expected, atol=1e-6)
    assert again.words_ == classifier.words_
    other = again.with_classes(["cat", "dog"])
    assert other.predict_proba(paths).shape == (4, 2)
    assert other.with_classes(three.class_names).predict(paths) == classifier.predict(paths)


def test_the_same_seed_gives_the_same_bits_with_image_prompts(
    pocket: Backbone, three: Dataset
) -> None:
    runs = [PromptClassifier(pocket, "maple", 1, views=1, **FAST).fit(three) for _ in range(2)]
    first, second = (run.learner_.state_dict() for run in runs)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_depth_is_asked_for_and_kept(pocket: Backbone, three: Dataset, tmp_path: Path) -> None:
    classifier = PromptClassifier(pocket, "maple", 0, depth=2, views=0, **FAST).fit(three)
    assert classifier.learner_.state_dict()["deep"].shape[0] == 1
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert again.learner_.depth == 2


def test_a_depth_beyond_the_towers_is_told(pocket: Backbone, three: Dataset) -> None:
    how = {**FAST, "depth": 99, "views": 0}
    (note,) = PromptClassifier(pocket, "maple", 0, **how).fit(three).notes_
    assert note == (
        "depth is 99; the towers have 6 (text) and 8 (image) layers, and all of them get vectors."
    )


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"class_template": "a photo"}, "class_template is 'a photo'; it needs {} once"),
        ({"class_template": "{x} of {}"}, "class_template is"),
        ({"depth": 0}, "depth is 0"),
        ({"depth": 3}, "depth is 3; kgcoop has vectors in the first layer alone"),
    ],
)
def test_what_a_learner_does_not_take(
    how: dict[str, Any], says: str, pocket: Backbone, three: Dataset
) -> None:
    with pytest.raises(ConfigError, match=says.replace("{", r"\{").replace("}", r"\}")):
        PromptClassifier(pocket, "kgcoop", 0, views=0, **{**FAST, **how}).fit(three)
