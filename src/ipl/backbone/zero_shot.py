"""CLIP as it comes: a hand-written prompt and no training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset

ZERO_SHOT_TEMPLATE = "a photo of a {}."


@torch.no_grad()
def zero_shot_logits(
    backbone: Backbone,
    class_names: Sequence[str],
    features: Tensor,
    template: str = ZERO_SHOT_TEMPLATE,
) -> Tensor:
    """Compare image features with the prompts of a hand-written template.

    Parameters
    ----------
    backbone : Backbone
        The model that computed the features.
    class_names : sequence of str
        Class names as a prompt says them.
    features : Tensor of shape (images, feature_dim)
        Image features, normalised or not.
    template : str, default="a photo of a {}."
        The prompt, with {} for the class name.

    Returns
    -------
    Tensor of shape (images, classes)
        Logits on the backbone's device.
    """
    texts = backbone.encode_texts([template.format(name) for name in class_names])
    return backbone.logits(features, texts)


def zero_shot_log_probabilities(
    backbone: Backbone,
    class_names: Sequence[str],
    features: Tensor,
    template: str = ZERO_SHOT_TEMPLATE,
) -> Tensor:
    """Returns log-probabilities (images, classes) on the CPU in double precision.

    The parameters are those of `zero_shot_logits`.
    """
    logits = zero_shot_logits(backbone, class_names, features, template)
    return logits.cpu().double().log_softmax(1)


def zero_shot_accuracy(
    dataset: Dataset, store: FeatureStore, template: str = ZERO_SHOT_TEMPLATE
) -> float:
    """Returns the accuracy of a hand-written prompt on the readable test images of a dataset."""
    images = store.encode([item.path for item in dataset.test])
    labels = torch.tensor([dataset.test[index].label for index in images.indices])
    logits = zero_shot_logits(store.backbone, dataset.class_names, images.features, template)
    correct = logits.argmax(1).cpu() == labels
    return float(correct.double().mean())
