"""The engines compute the same image features: fp32 to the last bits, int8 nearly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from ipl import Backbone, Dataset, PromptClassifier
from ipl.datasets.scenes import CLASSES
from ipl.inference.engines import ENGINES, ImageEncoder
from ipl.support.errors import ConfigError
from tests.helpers.scenes import open_scene

FP32_TOLERANCE = 1e-4  # of a probability
INT8_TOLERANCE = 0.2
INT8_COSINE = 0.999


@pytest.fixture(scope="module", params=["coop", "cocoop", "maple"])
def classifier(
    request: pytest.FixtureRequest, pocket: Backbone, scenes: Dataset
) -> PromptClassifier:
    """Returns a prompt for all scenes; those of MaPLe also enter the image tower."""
    options: dict[str, Any] = {"views": 0, "epochs": 1, "shots": 1, "cache": False}
    return PromptClassifier(pocket, request.param, 0, **options).fit(scenes)


@pytest.fixture(scope="module")
def pixels(pocket: Backbone) -> Any:
    """Returns two images of each scene, as the image tower takes them."""
    images = [open_scene(name, index) for name in CLASSES for index in (46, 47)]
    return np.stack([pocket.preprocessing.evaluate(image) for image in images])


def test_all_engines_agree(classifier: PromptClassifier, pixels: Any) -> None:
    features, probabilities = {}, {}
    for engine in ENGINES:
        encoder = ImageEncoder(classifier, engine)
        with encoder.share():
            features[engine] = encoder.encode(pixels)
        encoder.close()
        probabilities[engine] = classifier.probabilities(features[engine])
    exact = probabilities["torch"]
    images = [open_scene(name, index) for name in CLASSES for index in (46, 47)]
    np.testing.assert_allclose(exact, classifier.predict_proba(images), atol=1e-5)
    np.testing.assert_allclose(probabilities["onnx-fp32"], exact, atol=FP32_TOLERANCE)
    assert (probabilities["onnx-fp32"].argmax(1) == exact.argmax(1)).all()
    np.testing.assert_allclose(probabilities["onnx"], exact, atol=INT8_TOLERANCE)
    assert (features["onnx"] * features["torch"]).sum(1).min() > INT8_COSINE
    # int8 may only swap classes that are about equally probable.
    rows = np.arange(len(exact))
    behind = exact.max(1) - exact[rows, probabilities["onnx"].argmax(1)]
    assert behind.max() < INT8_TOLERANCE
    assert (behind == 0).mean() >= 0.9


def test_a_thread_alone_has_all_cores_and_others_share_them(
    classifier: PromptClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    encoder = ImageEncoder(classifier)
    assert encoder.workers == 4
    with encoder.share(), encoder.share():
        pass
    with encoder.share():
        pass
    encoder.close()
    assert told == [4, 1, 4, 4]


def test_threads_may_encode_at_the_same_time(classifier: PromptClassifier, pixels: Any) -> None:
    encoder = ImageEncoder(classifier, "onnx-fp32")
    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(encoder.encode, [pixels[:20], pixels[20:]]))
    assert torch.allclose(torch.cat(parts), encoder.encode(pixels), atol=1e-5)


def test_an_unknown_engine_is_refused(classifier: PromptClassifier) -> None:
    with pytest.raises(ConfigError, match="engine is 'tpu'; allowed are torch, onnx, onnx-fp32"):
        ImageEncoder(classifier, "tpu")
