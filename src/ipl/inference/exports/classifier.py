"""The classifier as a matrix: a text feature for each class, for zero-shot heads elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import (
    check_folder,
    facts,
    refuse_image_prompts,
    refuse_moving_texts,
)
from ipl.support.files import replace_folder, write_bytes, write_json

MATRIX, FACTS = "classifier.safetensors", "classifier.json"


@torch.no_grad()
def class_matrix(classifier: PromptClassifier) -> np.ndarray[Any, Any]:
    """Returns the normalised text features (classes, dim) in fp32; raises if they are not all.

    Probabilities are softmax(logit_scale * normalised image features @ matrix.T).
    """
    refuse_moving_texts(classifier, "a matrix")
    refuse_image_prompts(classifier, "a matrix", "use --to onnx, which holds that tower")
    matrix: np.ndarray[Any, Any] = classifier.learner_.text_features().float().cpu().numpy()
    return matrix


def export_classifier(classifier: PromptClassifier, folder: Path) -> dict[str, Any]:
    """Writes classifier.safetensors and classifier.json; returns what the latter says."""
    check_folder(folder)
    matrix = class_matrix(classifier)
    told = {
        "format": "ipl-classifier",
        "format_version": 1,
        "tensor": "weight",
        "shape": list(matrix.shape),
        **facts(classifier),
    }
    with replace_folder(folder) as work:
        write_bytes(work / MATRIX, save({"weight": np.ascontiguousarray(matrix)}))
        write_json(work / FACTS, told)
    return told
