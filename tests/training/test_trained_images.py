"""Images of a training are recognised by hashes, in whatever data they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots, encode_items
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset, Item
from ipl.training.result import FitResult
from ipl.training.trained_images import find_shots, find_trained, how_shots_differ


@pytest.fixture(scope="module")
def two_shots(make_run: Callable[..., Path], pocket: Backbone) -> PromptClassifier:
    """Returns a prompt of four scenes without words, trained on two images of each."""
    return PromptClassifier.from_pretrained(make_run("coop", 0, 2), pocket)


@pytest.fixture(scope="module")
def four(scenes: Dataset) -> Dataset:
    """Returns the scenes of these four classes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture
def result(two_shots: PromptClassifier) -> FitResult:
    return two_shots.result_


@pytest.fixture(scope="module")
def store(pocket: Backbone) -> FeatureStore:
    return FeatureStore(pocket)


def test_images_of_the_training_are_found_with_their_copies(
    result: FitResult, four: Dataset, store: FeatureStore, tmp_path: Path
) -> None:
    shots, rest = draw_shots(four, 2, 1, store)
    copy = Item(tmp_path / "copy", shots.items[0].label)
    copy.path.write_bytes(shots.items[0].path.read_bytes())
    gone = Item(tmp_path / "gone", 0)
    assert find_trained(result, (*rest, *shots.items, copy, gone), store) == {*shots.items, copy}
    assert find_trained(result, rest, store) == set()


def test_shots_are_found_among_more_images(
    result: FitResult, four: Dataset, store: FeatureStore
) -> None:
    shots, _ = draw_shots(four, 2, 1, store)
    assert find_shots(result, (*four.test, *four.train), store) == shots.items
    assert find_shots(result, shots.items[1:], store) is None
    moved = [shots.items[0]._replace(label=1), *shots.items[1:]]
    assert find_shots(result, moved, store) is None  # it has another class now
    assert find_shots(replace(result, image_hashes=()), four.train, store) is None


def test_shots_differ_if_one_is_another_image(
    two_shots: PromptClassifier, four: Dataset, store: FeatureStore
) -> None:
    result, learner = two_shots.result_, two_shots.learner_
    shots, rest = draw_shots(four, 2, 1, store)
    assert how_shots_differ(result, learner, shots, store) is None
    first = next(item for item in rest if item.label == shots.items[0].label)
    changed = encode_items((first, *shots.items[1:]), "training", store)
    told = how_shots_differ(result, learner, changed, store)
    assert told == "7 of the 8 training images that were drawn are the same"
    by_label = {label: [i for i in rest if i.label == label][:2] for label in range(4)}
    others = encode_items([i for two in by_label.values() for i in two], "training", store)
    told = how_shots_differ(result, learner, others, store)  # even if their accuracy is the same
    assert told == "none of the 8 training images that were drawn is the same"
    fewer = encode_items(shots.items[1:], "training", store)
    told = how_shots_differ(result, learner, fewer, store)
    assert told == "7 training images were drawn; the run had 8"
