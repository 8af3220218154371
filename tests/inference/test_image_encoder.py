"""The engines compute the same image features, int8 nearly."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from ipl import Backbone, Dataset, PromptClassifier
from ipl.datasets.scenes import CLASSES
from ipl.inference.image_encoder import ENGINES, ImageEncoder
from ipl.support.errors import ConfigError
from tests.helpers.scenes import open_scene

INT8_TOLERANCE = 0.2  # of a probability
INT8_COSINE = 0.999


@pytest.fixture(scope="module")
def make(pocket: Backbone, scenes: Dataset) -> Callable[[str], PromptClassifier]:
    """Returns a maker of prompts for all scenes; those of MaPLe also enter the image tower."""
    options: dict[str, Any] = {"views": 0, "epochs": 1, "shots": 1, "cache": False}
    return cache(lambda learner: PromptClassifier(pocket, learner, 0, **options).fit(scenes))


@pytest.fixture(scope="module")
def pixels(pocket: Backbone) -> Any:
    """Returns two images of each scene, as the image tower takes them."""
    images = [open_scene(name, index) for name in CLASSES for index in (46, 47)]
    return np.stack([pocket.preprocessing.evaluate(image) for image in images])


@pytest.mark.parametrize("learner", ["coop", "cocoop", "maple"])
def test_all_engines_agree(
    make: Callable[[str], PromptClassifier], pixels: Any, learner: str
) -> None:
    classifier = make(learner)
    features, probabilities = {}, {}
    for engine in ENGINES:
        encoder = ImageEncoder(classifier, engine)
        with encoder.share():
            features[engine] = encoder.encode(pixels)
        encoder.close()
        probabilities[engine] = classifier.log_probabilities(features[engine]).exp().numpy()
    exact = probabilities["torch"]
    images = [open_scene(name, index) for name in CLASSES for index in (46, 47)]
    np.testing.assert_allclose(exact, classifier.predict_proba(images), atol=1e-5)
    np.testing.assert_allclose(probabilities["onnx"], exact, atol=INT8_TOLERANCE)
    assert (features["onnx"] * features["torch"]).sum(1).min() > INT8_COSINE
    # int8 may only swap classes that are about equally probable.
    rows = np.arange(len(exact))
    behind = exact.max(1) - exact[rows, probabilities["onnx"].argmax(1)]
    assert behind.max() < INT8_TOLERANCE
    assert (behind == 0).mean() >= 0.9


def test_an_unknown_engine_is_refused(make: Callable[[str], PromptClassifier]) -> None:
    with pytest.raises(ConfigError, match="engine is 'tpu'"):
        ImageEncoder(make("coop"), "tpu")
