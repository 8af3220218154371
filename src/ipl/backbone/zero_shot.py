"""CLIP as it comes: a hand-written prompt and no training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.datasets.dataset import Dataset

ZERO_SHOT_TEMPLATE = "a photo of a {}."


@torch.no_grad()
def zero_shot_logits(
    backbone: Backbone,
    class_names: Sequence[str],
    features: Tensor,
    template: str = ZERO_SHOT_TEMPLATE,
) -> Tensor:
    """Logits (images, classes) of image features, with {} in the template for the class name."""
    texts = backbone.encode_texts([template.format(name) for name in class_names])
    return backbone.logits(features, texts)


def zero_shot_accuracy(
    dataset: Dataset, store: FeatureStore, template: str = ZERO_SHOT_TEMPLATE
) -> float:
    """The accuracy of a hand-written prompt on the readable test images of a dataset."""
    images = store.encode([item.path for item in dataset.test])
    labels = torch.tensor([dataset.test[index].label for index in images.indices])
    logits = zero_shot_logits(store.backbone, dataset.class_names, images.features, template)
    correct = logits.argmax(1).cpu() == labels
    return float(correct.double().mean())
