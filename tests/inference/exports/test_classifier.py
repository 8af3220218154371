"""The exported layer on plain image features gives our own probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from ipl import PromptClassifier
from ipl.inference.exports.classifier import export_classifier

Fitted = Callable[..., PromptClassifier]


@pytest.mark.parametrize("head", [True, False])
def test_the_layer_and_plain_image_features_give_our_probabilities(
    head: bool, fitted: Fitted, images: list[Image.Image], tmp_path: Path
) -> None:
    classifier = fitted("coop", 2)
    if not head:
        classifier = classifier.with_classes(["beach", "castle", "harbour"])
    written = export_classifier(classifier, tmp_path / "out")
    layer = load_file(tmp_path / "out" / "classifier.safetensors")
    content = json.loads((tmp_path / "out" / "classifier.json").read_text())
    assert content == written
    assert content["classes"] == classifier.classes_
    assert content["head"] == bool(layer["bias"].any()) == head
    assert layer["weight"].shape == (3, 512) == tuple(content["shape"])
    assert layer["weight"].dtype == layer["bias"].dtype == np.float32
    features = classifier.encode(images).numpy()
    logits = content["logit_scale"] * features @ layer["weight"].T + layer["bias"]
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities, classifier.predict_proba(images), atol=1e-5)
