"""ONNX: the image tower with its prompts, and the head, in one file; in fp32 and in int8."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ipl.backbone.encode_images import crop
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import UnreadableImageError
from ipl.inference.exports.common import check_folder, facts, refuse_moving_texts
from ipl.inference.predictions import BATCH
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import replace_folder, write_json
from ipl_scenes import CLASSES, draw

FP32, INT8, FACTS = "model.onnx", "model-int8.onnx", "export.json"
TOLERANCE = 1e-4  # between our probabilities and those of the fp32 file
MOST = 2000  # images of a dataset that are compared
OPSET = 17
Bytes = np.ndarray[Any, Any]


class _Network(nn.Module):
    """From bytes (batch, height, width, 3), resized and cropped, to logits and probabilities."""

    def __init__(self, classifier: PromptClassifier) -> None:
        super().__init__()
        self.texts: Tensor
        self.learner = classifier.learner_
        self.clip = self.learner.backbone.model  # registered, so that its weights have names
        with torch.no_grad():
            self.register_buffer("texts", self.learner.text_features())

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Returns logits and probabilities (batch, classes)."""
        backbone = self.learner.backbone
        features = self.learner.image_features(backbone.preprocessing.normalise(pixels))
        logits = backbone.logits(features, self.texts)
        return logits, logits.softmax(-1)


def export_onnx(
    classifier: PromptClassifier, folder: Path, check: Dataset | None = None
) -> dict[str, Any]:
    """Writes model.onnx, model-int8.onnx and export.json; returns what the latter says.

    Both are run with onnxruntime and compared with our own predictions: on the images of
    `check`, with accuracies, or on drawn ones.
    """
    _need_packages()
    check_folder(folder)
    refuse_moving_texts(classifier, "ONNX")
    if check is not None:
        _check_classes(classifier, check)
    backbone = classifier.learner_.backbone
    if backbone.device.type != "cpu":
        raise ConfigError("ONNX is written from the CPU; load the prompt with device cpu.")
    told = {"format": "ipl-onnx", "format_version": 1, **facts(classifier)}
    size = backbone.preprocessing.crop
    told["input"] = {"pixels": ["batch", size, size, 3], "type": "uint8"}
    told["outputs"] = {"logits": ["batch", len(classifier.classes_)], "probabilities": "the same"}
    with replace_folder(folder) as work, _quiet():
        _write_fp32(_Network(classifier).eval(), work / FP32, size)
        _write_int8(work / FP32, work / INT8)
        for name in (FP32, INT8):
            _annotate(work / name, told)
        told["checked"] = _compare(classifier, work, check)
        write_json(work / FACTS, told)
    return told


def _check_classes(classifier: PromptClassifier, check: Dataset) -> None:
    known = [str(name) for name in classifier.classes_]
    for name in check.class_names:
        if name not in known:
            raise ConfigError(
                f"{check.name} has the class {name!r}, which this prompt was not given; its "
                f"classes are {', '.join(known)}: give others with --classes (with_classes([...]) "
                "in Python)."
            )


def _write_fp32(network: nn.Module, path: Path, size: int) -> None:
    torch.onnx.export(
        network,
        (torch.zeros(2, size, size, 3, dtype=torch.uint8),),
        path,
        input_names=["pixels"],
        output_names=["logits", "probabilities"],
        dynamic_axes={name: {0: "batch"} for name in ("pixels", "logits", "probabilities")},
        opset_version=OPSET,
        dynamo=False,
    )


def _write_int8(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Only matrices: the first convolution looks at pixels, where a rounding error spreads widest.
    kinds = ["MatMul", "Gemm"]
    quantize_dynamic(
        source, target, kinds, per_channel=True, weight_type=QuantType.QInt8
    )  # fmt: skip


def _annotate(path: Path, told: dict[str, Any]) -> None:
    """Puts what is told into the file itself, so that it explains itself alone."""
    import onnx

    model = onnx.load(path)
    for name in ("classes", "preprocessing", "prompt", "words", "backbone"):
        value = told[name] if isinstance(told[name], str) else json.dumps(told[name])
        model.metadata_props.add(key=name, value=value)
    onnx.save(model, path)


def _compare(classifier: PromptClassifier, work: Path, check: Dataset | None) -> dict[str, Any]:
    """Returns how the files do beside our own predictions; raises if fp32 is too far off."""
    prepared, labels = _images(classifier, check)
    ours = classifier.predict_proba([Image.fromarray(pixels) for pixels in prepared])
    name = "drawn scenes" if check is None else check.name
    found: dict[str, Any] = {"images": len(prepared), "of": name}
    if labels is not None:
        found["accuracy"] = float((ours.argmax(1) == labels).mean())
    for name, file in (("fp32", FP32), ("int8", INT8)):
        values = _run(work / file, prepared)
        one = {
            "file": file,
            "bytes": (work / file).stat().st_size,
            "largest_difference": float(np.abs(values - ours).max()),
            "agreement": float((values.argmax(1) == ours.argmax(1)).mean()),
        }
        if labels is not None:
            one["accuracy"] = float((values.argmax(1) == labels).mean())
        found[name] = one
    if found["fp32"]["largest_difference"] > TOLERANCE:
        raise IplError(
            f"The ONNX file is off by {found['fp32']['largest_difference']:.2e} in a probability; "
            f"allowed is {TOLERANCE:g}, so nothing was written."
        )
    return found


def _run(path: Path, pixels: Bytes) -> Bytes:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = [
        session.run(["probabilities"], {"pixels": pixels[start : start + BATCH]})[0]
        for start in range(0, len(pixels), BATCH)
    ]
    return np.concatenate(parts)


def _images(classifier: PromptClassifier, check: Dataset | None) -> tuple[Bytes, Bytes | None]:
    """Returns images to compare on, resized and cropped, and their labels if they have any."""
    backbone = classifier.learner_.backbone
    if check is None:
        drawn = [draw(name, index) for name in CLASSES for index in (1000, 1001)]
        return np.stack([crop(backbone, image) for image in drawn]), None
    known = [str(name) for name in classifier.classes_]
    items = check.test or check.train
    pixels, labels = [], []
    for item in items[:: 1 + (len(items) - 1) // MOST]:  # evenly spaced
        with suppress(UnreadableImageError):
            pixels.append(crop(backbone, item.path))
            labels.append(known.index(check.class_names[item.label]))
    if not pixels:
        raise ConfigError(f"{check.name} has no readable image to check with.")
    return np.stack(pixels), np.array(labels)


def _need_packages() -> None:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise ConfigError(
            "ONNX needs packages that are not installed: `pip install 'ipl[onnx]'`."
        ) from None
    del onnx, onnxruntime


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporters' remarks on their own workings off the terminal; errors raise."""
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.root.setLevel(level)
