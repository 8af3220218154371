"""What stands in the slots of a fit: nothing, words that a person gave, random words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.classifier import PromptClassifier
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset
from ipl.support.errors import ConfigError
from ipl.training.fit import fit, new_learner
from ipl.training.result import FitResult
from ipl.words.pool import Pool

QUICK: dict[str, Any] = {"shots": 2, "epochs": 3, "interval": 1, "views": 0, "cache": False}


@pytest.fixture(scope="module")
def few(scenes: Dataset) -> Dataset:
    """Returns four classes of the scenes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def store(pocket: Backbone) -> FeatureStore:
    """Returns the features that the fits of these tests share."""
    return FeatureStore(pocket)


@pytest.fixture
def fitted(few: Dataset, pocket: Backbone, pool: Pool, store: FeatureStore) -> Any:
    """Returns a maker of quick fits: fitted(words=2, empty_slots=True)."""

    def make(pool: Pool = pool, **settings: Any) -> FitResult:
        config = FitConfig(**{**QUICK, **settings})
        return fit(config, few, pocket, pool=pool, features=store)

    return make


def arrivals(result: FitResult) -> list[str | None]:
    """Returns the word that entered in each epoch."""
    assert result.history is not None
    return [epoch.word for epoch in result.history.epochs]


def test_empty_slots_stay_empty(fitted: Any, pocket: Backbone) -> None:
    result = fitted(words=2, empty_slots=True)
    assert (result.words, result.selection, result.layout.slots) == ((), None, 2)
    assert result.prompt == "[V V] *_* [V V] *_* [V V] {cls}."
    assert arrivals(result) == [None, None, None]
    learner = result.learner
    assert learner is not None
    held = learner.prompts.embeddings[:, [3, 6]]  # SOS V V w V V w V V cls
    assert torch.equal(held, pocket.embed(pocket.tokenize("0")).expand_as(held))


def test_empty_slots_start_with_the_vectors_of_words(few: Dataset, pocket: Backbone) -> None:
    starts = [
        new_learner(FitConfig(words=2, **more), pocket, few.class_names, 2).soft
        for more in ({}, {"empty_slots": True}, {"random_words": 1})
    ]
    given = FitConfig(words_given="playfulness, sand")  # three tokens in two slots
    starts.append(new_learner(given, pocket, few.class_names, 2).soft)
    assert len({tuple(start.flatten().tolist()) for start in starts}) == 1


def test_given_words_enter_at_their_epochs(fitted: Any) -> None:
    result = fitted(words_given="Sand, playfulness", epochs=5, interval=2)
    assert (result.words, result.selection) == (("sand", "playfulness"), None)
    searched = fitted(words=2, epochs=5, interval=2)
    expected = iter(result.words)
    assert arrivals(result) == [word and next(expected) for word in arrivals(searched)]
    assert arrivals(result).count(None) == 3


def test_a_given_word_of_two_tokens_is_saved_and_read_back(
    few: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    assert len(pocket.tokenize("playfulness")) == 2
    classifier = PromptClassifier(pocket, words_given="playfulness, sand", **QUICK).fit(few)
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert again.words_ == ["playfulness", "sand"]
    assert again.selection_ is None
    assert again.learner_.layout.slot_sizes == (2, 1)
    features = torch.nn.functional.normalize(torch.randn(5, 512), dim=-1)
    for other in (again, again.with_classes(few.class_names)):
        assert torch.equal(other.learner_.logits(features), classifier.learner_.logits(features))


def test_random_words_are_others_for_each_draw_and_seed(fitted: Any) -> None:
    chosen = fitted(words=2).words
    first = fitted(words=2, random_words=1)
    assert first.selection is None
    assert len(set(first.words)) == 2
    assert not set(first.words) & set(chosen)
    assert tuple(word for word in arrivals(first) if word) == first.words
    assert fitted(words=2, random_words=1).words == first.words
    assert fitted(words=2, random_words=2).words != first.words
    other_seed = fitted(words=2, random_words=1, seed=2)
    assert other_seed.words != first.words


def test_random_words_need_twice_as_many_in_the_pool(fitted: Any) -> None:
    three = Pool.from_words(("blue", "sand", "stone"), "three words")
    message = "words is 2; the pool has 3 words, and the chosen words and as many random ones are 4"
    with pytest.raises(ConfigError, match=message):
        fitted(three, words=2, random_words=1)
    assert fitted(three, words=1, random_words=1).words[0] in three.words
