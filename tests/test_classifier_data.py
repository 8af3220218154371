"""What a classifier can be fitted on: datasets of other libraries, and published class lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import ImageSource, open_image
from ipl.datasets.readers import read_dataset
from ipl.support.cache import Cache
from ipl.support.errors import DataError

QUICK: dict[str, Any] = {"words": 0, "epochs": 2, "shots": 2, "views": 0, "seed": 3}


class InMemory:
    """Images in memory, as torchvision's CIFAR10 has them."""

    def __init__(self, dataset: Dataset, part: str) -> None:
        self.items = getattr(dataset, part)
        self.classes = list(dataset.class_names)
        self.targets = [item.label for item in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return open_image(self.items[index].path), self.targets[index]


@pytest.fixture(scope="module")
def few(scenes: Dataset) -> Dataset:
    """Returns three of the drawn classes."""
    return scenes.only([0, 1, 2], "three")


@pytest.mark.parametrize("learner", ["coop", "maple"])
def test_images_in_memory_teach_what_files_do(learner: str, few: Dataset, pocket: Backbone) -> None:
    held = {part: InMemory(few, part) for part in ("train", "test")}
    first = PromptClassifier(pocket, learner, **QUICK).fit(few)
    second = PromptClassifier(pocket, learner, **QUICK).fit(held)
    assert second.result_.results == first.result_.results
    first_losses = [epoch.loss for epoch in first.result_.history.epochs]
    assert [epoch.loss for epoch in second.result_.history.epochs] == first_losses
    assert second.score(held["test"]) == first.score(few)


def test_features_of_images_in_memory_are_kept_by_their_pixels(
    few: Dataset, pocket: Backbone
) -> None:
    folder_of_images = [item.path for item in read_dataset(InMemory(few, "test")).train]
    cache = Cache()
    first = FeatureStore(pocket, cache).encode(folder_of_images)
    kept = cache.usage()["images"][0]
    assert kept == len(folder_of_images)
    again = [item.path for item in read_dataset(InMemory(few, "test")).train]
    taken = []
    counted = [ImageSource(str(p), lambda p=p: taken.append(p) or p.take()) for p in again]  # type: ignore[misc]
    second = FeatureStore(pocket, cache).encode(counted)
    assert torch.equal(first.features, second.features)
    assert cache.usage()["images"][0] == kept
    assert len(taken) == len(counted)  # taken once, to be hashed


def test_a_published_list_may_say_a_name_twice(
    few: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    twice = ("beach", "beach", few.class_names[2])
    with pytest.raises(DataError, match="read the same"):
        replace(few, class_names=twice)
    published = replace(few, class_names=twice, alike=True)
    classifier = PromptClassifier(pocket, **QUICK).fit(published)
    assert classifier.classes_ == list(twice)
    # Equal prompts: the first of the two is always taken, so the second class is always missed.
    only_second = replace(published, test=tuple(i for i in few.test if i.label == 1))
    assert classifier.score(only_second) == 0.0
    other = PromptClassifier(pocket, **QUICK).fit(few).with_classes(published)
    assert other.classes_ == list(twice)
    assert other.score(only_second) == 0.0
    with pytest.raises(DataError, match="same name"):
        other.with_classes(twice)
    classifier.save_pretrained(tmp_path / "run")
    assert PromptClassifier.from_pretrained(tmp_path / "run", pocket).classes_ == list(twice)
