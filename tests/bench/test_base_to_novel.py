"""Base-to-novel: the same images and seeds for every method."""

from __future__ import annotations

import statistics

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.base_to_novel import BaseToNovel, Method, base_to_novel, mean_and_spread
from ipl.bench.methods_summary import methods_summary
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.metrics import harmonic_mean
from ipl.support.errors import ConfigError
from ipl.words.pool import Pool

POOL = Pool.from_words(["adopt", "blue", "furry", "phone", "social", "visit"], "test")
METHODS = [
    Method("zero"),
    Method("plain", {"words": 0, "epochs": 3, "interval": 1, "views": 0}),
    Method("words", {"words": 1, "epochs": 3, "interval": 1, "pool": POOL, "views": 0}),
]


@pytest.fixture(scope="module")
def small(scenes: Dataset) -> Dataset:
    return scenes.only([3, 0, 11, 7, 12], "five scenes")


@pytest.fixture(scope="module")
def result(small: Dataset, pocket: Backbone) -> BaseToNovel:
    return base_to_novel(small, pocket, METHODS, (1, 2), shots=2)


def test_every_method_and_seed_has_its_outcome(result: BaseToNovel) -> None:
    found = [(o.method, o.seed) for o in result.outcomes]
    assert found == [(m.name, seed) for seed in (1, 2) for m in METHODS]
    assert all(len(o.words) == (o.method == "words") for o in result.outcomes)


def test_training_sees_the_base_shots_of_its_seed_and_nothing_else(
    result: BaseToNovel, small: Dataset
) -> None:
    for (_, seed), classifier in result.classifiers.items():
        assert classifier.classes_ == ["mountain", "beach", "village"]
        assert classifier.result_.training["images"] == 6
        assert classifier.result_.training["seed"] == seed
    drawn = sample_shots(small.train, 2, 1)
    assert len({item.path for item in drawn}) == 10


def test_accuracies_are_those_of_the_classifiers(result: BaseToNovel, small: Dataset) -> None:
    base, novel = split_base_novel(small)
    for outcome in result.of("words"):
        classifier = result.classifiers["words", outcome.seed]
        assert outcome.base == classifier.score(base)
        assert outcome.novel == classifier.with_classes(novel.class_names).score(novel)


def test_zero_shot_by_hand(small: Dataset, pocket: Backbone) -> None:
    store = FeatureStore(pocket)
    texts = pocket.encode_texts([f"a photo of a {name}." for name in small.class_names])
    seen = store.encode([item.path for item in small.test])
    cosines = torch.nn.functional.cosine_similarity(seen.features[:, None], texts[None], dim=-1)
    labels = torch.tensor([item.label for item in small.test])
    expected = (cosines.argmax(1) == labels).float().mean().item()
    assert zero_shot_accuracy(small, store) == pytest.approx(expected)


def test_harmonic_mean() -> None:
    assert harmonic_mean(0.8249, 0.70) == pytest.approx(0.7573, abs=1e-4)  # the paper's CoOp + IPL
    assert harmonic_mean(0, 0) == 0


def test_mean_and_spread() -> None:
    assert mean_and_spread([1.0, 2.0, 6.0]) == (3.0, statistics.stdev([1.0, 2.0, 6.0]))
    assert mean_and_spread([4.0]) == (4.0, 0.0)


def test_the_summary_is_over_seeds(result: BaseToNovel) -> None:
    (row,) = methods_summary(result, ["plain"])
    values = [100 * o.hm for o in result.of("plain")]
    assert row["hm"]["mean"] == pytest.approx(statistics.mean(values))
    assert row["hm"]["spread"] == pytest.approx(statistics.stdev(values))
    assert row["seeds"] == [1, 2]


def test_too_few_classes_or_seeds(small: Dataset, pocket: Backbone) -> None:
    with pytest.raises(ConfigError, match="at least 4"):
        base_to_novel(small.only([0, 1, 2], "three"), pocket, METHODS, (1,))
    with pytest.raises(ConfigError, match="seeds is empty"):
        base_to_novel(small, pocket, METHODS, ())
