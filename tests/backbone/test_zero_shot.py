"""CLIP as it comes: logits, log-probabilities and accuracy of a hand-written prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.zero_shot import (
    zero_shot_accuracy,
    zero_shot_logits,
)
from ipl.datasets.dataset import Dataset, Item

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["beach", "desert", "starry night"]


def test_accuracy_is_over_the_readable_test_images(
    pocket: Backbone, scenes: Dataset, tmp_path: Path
) -> None:
    few = scenes.only(range(4), "four scenes")
    store = FeatureStore(pocket)
    accuracy = zero_shot_accuracy(few, store)
    features = store.encode([item.path for item in few.test]).features
    predicted = zero_shot_logits(pocket, few.class_names, features).argmax(1).tolist()
    correct = [p == item.label for p, item in zip(predicted, few.test, strict=True)]
    assert accuracy == pytest.approx(sum(correct) / len(correct))
    broken = replace(few, test=(Item(tmp_path / "missing.png", 0), *few.test))
    assert zero_shot_accuracy(broken, store) == accuracy
