"""`--to classifier`: a matrix with a text feature for each class, for zero-shot heads elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import (
    check_export_folder,
    metadata,
    require_fixed_texts,
    require_plain_image_tower,
)
from ipl.support.files import replace_folder, write_bytes, write_json

MATRIX, METADATA = "classifier.safetensors", "classifier.json"


@torch.no_grad()
def class_matrix(classifier: PromptClassifier) -> np.ndarray[Any, Any]:
    """Return the normalised text features of the classes.

    Probabilities are softmax(logit_scale * normalised image features @ matrix.T).

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier.

    Returns
    -------
    numpy.ndarray
        An array (classes, dim) of type float32.

    Raises
    ------
    ConfigError
        If the learner's text features depend on the image, or its prompts also enter the image
        tower, so that a matrix is not the whole classifier.
    """
    require_fixed_texts(classifier, "a matrix")
    require_plain_image_tower(
        classifier, "a matrix", "use --to onnx, which contains the image tower with its prompts"
    )
    matrix: np.ndarray[Any, Any] = classifier.learner_.text_features().float().cpu().numpy()
    return matrix


def export_classifier(classifier: PromptClassifier, folder: Path) -> dict[str, Any]:
    """Write classifier.safetensors and classifier.json.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier.
    folder : Path
        A new or empty folder.

    Returns
    -------
    dict
        The content of classifier.json.

    Raises
    ------
    IplError
        If the folder is not empty, or the classifier is not a matrix (see `class_matrix`).
    """
    check_export_folder(folder)
    matrix = class_matrix(classifier)
    content = {
        "format": "ipl-classifier",
        "format_version": 1,
        "tensor": "weight",
        "shape": list(matrix.shape),
        **metadata(classifier),
    }
    with replace_folder(folder) as work:
        write_bytes(work / MATRIX, save({"weight": np.ascontiguousarray(matrix)}))
        write_json(work / METADATA, content)
    return content
