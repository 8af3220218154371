"""CLIP as it comes: a hand-written prompt and no training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.datasets.benchmarks import PHOTO
from ipl.datasets.dataset import Dataset


@torch.no_grad()
def zero_shot_logits(
    backbone: Backbone,
    class_names: Sequence[str],
    features: Tensor,
    template: str = PHOTO,
) -> Tensor:
    """Logits (images, classes) of image features, with {} in the template for the class name."""
    texts = backbone.encode_texts([template.format(name) for name in class_names])
    return backbone.logits(features, texts)


def zero_shot_accuracy(dataset: Dataset, store: FeatureStore, template: str = PHOTO) -> float:
    """The accuracy of a hand-written prompt on the readable test images of a dataset."""
    images = encode_items(dataset.test, "test", store)
    logits = zero_shot_logits(store.backbone, dataset.class_names, images.features, template)
    correct = logits.argmax(1).cpu() == images.labels
    return float(correct.double().mean())
