"""ONNX files run by onnxruntime, against our own predictions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from ipl import Dataset, PromptClassifier
from ipl.backbone.features import FeatureStore
from ipl.datasets.dataset import Item
from ipl.inference.exports import onnx as onnx_file
from ipl.inference.exports.onnx import export_onnx
from ipl.support.errors import ConfigError, DataError, IplError
from ipl.training.chosen_images import find_trained

Fitted = Callable[..., PromptClassifier]


def _session(path: Path) -> Any:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def _prepared(classifier: PromptClassifier, images: list[Image.Image]) -> np.ndarray[Any, Any]:
    preprocessing = classifier.learner_.backbone.preprocessing
    return np.stack([preprocessing.evaluate(image.convert("RGB")) for image in images])


@pytest.fixture(scope="module")
def data(scenes: Dataset) -> Dataset:
    """Returns labelled images whose classes are those of the classifiers, in another order."""
    return scenes.only([17, 0, 4], "in another order")


@pytest.fixture(scope="module")
def trained(fitted: Fitted, data: Dataset) -> list[Item]:
    """Returns the images of that data that CoOp with two words was trained on."""
    classifier = fitted("coop", 2)
    store = FeatureStore(classifier.learner_.backbone)
    return sorted(find_trained(classifier.result_, data.train, store) or ())


@pytest.fixture(scope="module")
def exported(
    fitted: Fitted, data: Dataset, trained: list[Item], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Returns CoOp with two words as ONNX, checked on labelled images, two of its training."""
    folder = tmp_path_factory.mktemp("onnx") / "out"
    mixed = replace(data, train=(*trained[:2], *data.test), test=())
    export_onnx(fitted("coop", 2), folder, mixed)
    return folder


def _is_ours(folder: Path, classifier: PromptClassifier, images: list[Image.Image]) -> None:
    session = _session(folder / "model.onnx")
    pixels = _prepared(classifier, images)
    ours = classifier.predict_proba(images)
    for size in (1, 5):
        logits, values = session.run(None, {"pixels": pixels[:size]})
        np.testing.assert_allclose(values, ours[:size], atol=1e-4)
        assert (logits.argmax(1) == ours[:size].argmax(1)).all()
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == classifier.classes_
    assert metadata["prompt"] == classifier.prompt_


def test_fp32_is_ours_for_any_batch(
    exported: Path, fitted: Fitted, images: list[Image.Image]
) -> None:
    classifier = fitted("coop", 2)
    assert classifier.head_ is not None  # is in the file
    _is_ours(exported, classifier, images)


def test_prompts_in_the_image_tower_are_in_the_file(
    fitted: Fitted, images: list[Image.Image], tmp_path: Path
) -> None:
    classifier = fitted("maple", 1)
    content = export_onnx(classifier, tmp_path / "out")
    _is_ours(tmp_path / "out", classifier, images)
    assert content["checked"]["of"] == "drawn scenes"
    assert content["checked"]["fp32"]["largest_difference"] < 1e-4
    assert content["checked"]["fp32"]["agreement"] == 1.0
    assert json.loads((tmp_path / "out" / "export.json").read_text()) == content


def test_int8_is_smaller_and_its_accuracy_on_new_images_is_stated(
    exported: Path, fitted: Fitted, data: Dataset
) -> None:
    classifier = fitted("coop", 2)
    checked = json.loads((exported / "export.json").read_text())["checked"]
    assert checked["images"] == len(data.test)
    assert checked["accuracy"] == pytest.approx(classifier.score(data))
    assert checked["fp32"]["accuracy"] == pytest.approx(classifier.score(data))
    assert checked["int8"]["bytes"] < checked["fp32"]["bytes"] / 3
    paths = [item.path for item in data.test]
    pixels = _prepared(classifier, [Image.open(path) for path in paths])
    (values,) = _session(exported / "model-int8.onnx").run(["probabilities"], {"pixels": pixels})
    names = [classifier.classes_[i] for i in values.argmax(1)]
    right = [n == data.class_names[i.label] for n, i in zip(names, data.test, strict=True)]
    assert checked["int8"]["accuracy"] == pytest.approx(np.mean(right))
    same = np.mean([a == b for a, b in zip(names, classifier.predict(paths), strict=True)])
    assert checked["int8"]["agreement"] == pytest.approx(same)


def test_what_cannot_be(
    exported: Path,
    fitted: Fitted,
    data: Dataset,
    trained: list[Item],
    scenes: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="cocoop cannot be exported as ONNX: its prompts shift"):
        export_onnx(fitted("cocoop", 0), tmp_path / "out")
    only = replace(data, train=tuple(trained), test=())
    with pytest.raises(ConfigError, match="no readable image that it was not trained on"):
        onnx_file._compare(fitted("coop", 2), exported, only)
    with monkeypatch.context() as patch:
        patch.setattr(onnx_file, "write_fp32", None)  # before anything is computed
        with pytest.raises(DataError, match="two has the class 'desert', which this prompt"):
            export_onnx(fitted("coop", 2), tmp_path / "out", scenes.only([0, 1], "two"))
    monkeypatch.setattr(onnx_file, "TOLERANCE", -1.0)
    with pytest.raises(IplError, match="differs from ours by .* so nothing was written"):
        onnx_file._compare(fitted("coop", 2), exported, None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'ipl\[onnx\]'"):
        export_onnx(fitted("coop", 2), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
