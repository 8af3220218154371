"""What exports share: the check of their folder, their metadata, and the last, linear layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ipl._version import __version__
from ipl.classifier import PromptClassifier
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import check_writable


def check_export_folder(folder: Path) -> None:
    """Raises IplError unless `folder` can be created or is an empty folder."""
    check_writable(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise IplError(f"{folder} already exists; choose a new folder for the export.")


def metadata(classifier: PromptClassifier) -> dict[str, Any]:
    """The prompt, its classes and backbone as plain values, as every export holds them."""
    config = classifier.as_dict()
    fields = ("learner", "prompt", "words", "classes", "backbone", "preprocessing")
    return {
        **{name: config[name] for name in fields},
        "logit_scale": classifier.learner_.backbone.logit_scale,
        "head": classifier.head_ is not None,
        "ipl_version": __version__,
    }


@torch.no_grad()
def linear_layer(classifier: PromptClassifier) -> tuple[Tensor, Tensor]:
    """Weights (classes, dim) and bias (classes,) on normalised image features.

    Probabilities are softmax(logit_scale * features @ weight.T + bias). Without a head the weights
    are the text features; a head, whose offset is alpha times the prompt's logits, is added.
    """
    learner, head = classifier.learner_, classifier.head_
    texts = learner.text_features().float().cpu()
    if head is None:
        return texts, torch.zeros(len(texts))
    weight = head.alpha * texts + head.weight.cpu() / learner.backbone.logit_scale
    return weight, head.bias.cpu()


def check_exportable(
    classifier: PromptClassifier, target: str, image_prompts: bool = False
) -> None:
    """Raises ConfigError if the learner's texts depend on the image, as in CoCoOp.

    Also, unless `image_prompts` are exported, if it prompts the image tower, as MaPLe does.
    """
    learner = classifier.learner_
    if not learner.fixed_texts:
        raise ConfigError(
            f"{learner.name} cannot be exported as {target}: its prompts shift with every image, "
            "so there are no fixed text features; the text tower is needed at prediction."
        )
    if learner.prompts_images and not image_prompts:
        raise ConfigError(
            f"{learner.name} cannot be exported as {target}: its prompts also enter the image "
            "tower, and features of the plain image tower do not match its text features; use "
            "--to onnx, which contains the image tower with its prompts."
        )
