"""`--to classifier`: a linear layer with a row for each class, on plain image features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import save

from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import (
    check_export_folder,
    check_exportable,
    linear_layer,
    metadata,
)
from ipl.support.files import replace_folder, write_bytes, write_json

TENSORS, METADATA = "classifier.safetensors", "classifier.json"


def export_classifier(classifier: PromptClassifier, folder: Path) -> dict[str, Any]:
    """Write classifier.safetensors and classifier.json into a new or empty folder.

    Probabilities are softmax(logit_scale * normalised image features @ weight.T + bias). Returns
    the content of classifier.json. Raises IplError if the folder is not empty, or the learner is
    not such a layer.
    """
    check_export_folder(folder)
    check_exportable(classifier, "a matrix")
    weight, bias = linear_layer(classifier)
    content = {
        "format": "ipl-classifier",
        "format_version": 2,
        "tensors": ["weight", "bias"],
        "shape": list(weight.shape),
        **metadata(classifier),
    }
    with replace_folder(folder) as work:
        write_bytes(work / TENSORS, save({"weight": weight.contiguous(), "bias": bias}))
        write_json(work / METADATA, content)
    return content
