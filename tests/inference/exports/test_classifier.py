"""The exported matrix and plain image features give our own probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

from ipl import PromptClassifier
from ipl.backbone.encode_images import encode_files
from ipl.inference.exports.classifier import class_matrix, export_classifier

Fitted = Callable[..., PromptClassifier]


def test_the_matrix_and_plain_image_features_give_our_probabilities(
    fitted: Fitted, images: list[Image.Image], tmp_path: Path
) -> None:
    classifier = fitted("coop", 2)
    written = export_classifier(classifier, tmp_path / "out")
    weight = load_file(tmp_path / "out" / "classifier.safetensors")["weight"]
    content = json.loads((tmp_path / "out" / "classifier.json").read_text())
    assert content == written
    assert content["classes"] == classifier.classes_
    assert weight.shape == (3, 512) == tuple(content["shape"])
    assert weight.dtype == np.float32
    features = encode_files(classifier.learner_.backbone, images).features.numpy()
    logits = content["logit_scale"] * features @ weight.T
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities, classifier.predict_proba(images), atol=1e-5)


def test_other_classes_have_their_own_matrix(fitted: Fitted) -> None:
    other = fitted("coop", 2).with_classes(["beach", "castle"])
    matrix = class_matrix(other)
    assert matrix.shape == (2, 512)
    np.testing.assert_allclose(matrix[0], class_matrix(fitted("coop", 2))[0], atol=1e-5)
