"""CLIP as it comes: a hand-made prompt and no training."""

from __future__ import annotations

import torch

from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset

ZERO_SHOT_TEMPLATE = "a photo of a {}."


def zero_shot_accuracy(
    dataset: Dataset, features: FeatureStore, template: str = ZERO_SHOT_TEMPLATE
) -> float:
    """Returns the accuracy on the test part of a dataset with a hand-made prompt."""
    backbone = features.backbone
    texts = backbone.encode_texts([template.format(name) for name in dataset.class_names])
    seen = features.encode([item.path for item in dataset.test])
    labels = torch.tensor([dataset.test[index].label for index in seen.kept])
    right = backbone.logits(seen.features, texts).argmax(1).cpu() == labels
    return float(right.double().mean())
