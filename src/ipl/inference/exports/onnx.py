"""`--to onnx`: the image tower with its prompts and the head in one file, in fp32 and in int8."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ipl.backbone.encode_images import crop
from ipl.backbone.feature_store import FeatureStore
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset, quote_classes
from ipl.datasets.images import UnreadableImageError
from ipl.datasets.scenes import scenes_dataset
from ipl.inference.exports.common import check_export_folder, metadata, require_fixed_texts
from ipl.support.errors import ConfigError, IplError
from ipl.support.extras import require
from ipl.support.files import replace_folder, write_json
from ipl.training.trained_images import find_trained

FP32, INT8, METADATA = "model.onnx", "model-int8.onnx", "export.json"
TOLERANCE = 1e-4  # between our probabilities and those of the fp32 file
MAX_IMAGES = 2000  # of a dataset that are compared
BATCH = 64
OPSET = 17
Array = np.ndarray[Any, Any]


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
    """Write model.onnx, model-int8.onnx and export.json.

    Both models are run with onnxruntime and compared with our own predictions.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier on the CPU.
    folder : Path
        A new or empty folder.
    check : Dataset, optional
        Labelled images to compare on. Those that the classifier was not trained on also give
        accuracies. The default is to compare on drawn scenes.

    Returns
    -------
    dict
        The content of export.json, with the comparison under "checked".

    Raises
    ------
    IplError
        If the folder is not empty, a package is missing, the learner cannot be exported, the
        classes of `check` are unknown, or the probabilities of the fp32 file are not ours.
    """
    check_packages()
    check_export_folder(folder)
    require_fixed_texts(classifier, "ONNX")
    if check is not None:
        _check_classes(classifier, check)
    backbone = classifier.learner_.backbone
    if backbone.device.type != "cpu":
        raise ConfigError("ONNX is written from the CPU; load the prompt with device cpu.")
    content = {"format": "ipl-onnx", "format_version": 1, **metadata(classifier)}
    size = backbone.preprocessing.crop
    content["input"] = {"pixels": ["batch", size, size, 3], "type": "uint8"}
    content["outputs"] = {
        "logits": ["batch", len(classifier.classes_)],
        "probabilities": "the same",
    }
    with replace_folder(folder) as work, quiet_export():
        write_fp32(_Network(classifier).eval(), work / FP32, size, ["logits", "probabilities"])
        write_int8(work / FP32, work / INT8)
        for name in (FP32, INT8):
            _add_metadata(work / name, content)
        content["checked"] = _compare(classifier, work, check)
        write_json(work / METADATA, content)
    return content


def _check_classes(classifier: PromptClassifier, check: Dataset) -> None:
    names = [str(name) for name in classifier.classes_]
    if unknown := [name for name in check.class_names if name not in names]:
        raise ConfigError(
            f"{check.display_name} has {quote_classes(unknown)}, which this prompt does not have; "
            f"its classes are {', '.join(names)}: give others with --classes "
            "(with_classes([...]) in Python)."
        )


def write_fp32(network: nn.Module, path: Path, size: int, outputs: list[str]) -> None:
    """Writes a network that takes bytes (batch, size, size, 3) as an ONNX file."""
    torch.onnx.export(
        network,
        (torch.zeros(2, size, size, 3, dtype=torch.uint8),),
        path,
        input_names=["pixels"],
        output_names=outputs,
        dynamic_axes={name: {0: "batch"} for name in ("pixels", *outputs)},
        opset_version=OPSET,
        dynamo=False,
    )


def write_int8(source: Path, target: Path) -> None:
    """Writes an ONNX file with the weights of matrix products in int8, each channel with a scale.

    What they are multiplied with becomes int8 while the file is run, with one scale for a batch.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Not the first convolution: a rounding error in the pixels spreads widest.
    operators = ["MatMul", "Gemm"]
    quantize_dynamic(source, target, operators, per_channel=True, weight_type=QuantType.QInt8)


def _add_metadata(path: Path, content: dict[str, Any]) -> None:
    """Adds classes and preprocessing to a model file, so that it can be used alone."""
    import onnx

    model = onnx.load(path)
    for name in ("classes", "preprocessing", "prompt", "words", "backbone"):
        value = content[name] if isinstance(content[name], str) else json.dumps(content[name])
        model.metadata_props.add(key=name, value=value)
    onnx.save(model, path)


def _compare(classifier: PromptClassifier, work: Path, check: Dataset | None) -> dict[str, Any]:
    """Returns how the files compare with our own predictions; raises if fp32 is too far off."""
    pixels, labelled = _comparison_images(classifier, check)
    ours = classifier.predict_proba([Image.fromarray(image) for image in pixels])
    source = "drawn scenes" if check is None else check.display_name
    comparison: dict[str, Any] = {"images": len(pixels), "of": source}
    if labelled is not None:
        comparison |= {"trained_on": labelled.trained_count}
    new = None if labelled is None or not labelled.new.any() else labelled
    if new is not None:
        comparison |= {"accuracy": new.accuracy(ours), "accuracy_images": int(new.new.sum())}
    for precision, file in (("fp32", FP32), ("int8", INT8)):
        theirs = _run(work / file, pixels)
        comparison[precision] = {
            "file": file,
            "bytes": (work / file).stat().st_size,
            "largest_difference": float(np.abs(theirs - ours).max()),
            "agreement": float((theirs.argmax(1) == ours.argmax(1)).mean()),
        }
        if new is not None:
            comparison[precision]["accuracy"] = new.accuracy(theirs)
    difference = comparison["fp32"]["largest_difference"]
    if difference > TOLERANCE:
        raise IplError(
            f"A probability of the ONNX file differs from ours by {difference:.2e}; at most "
            f"{TOLERANCE:g} is allowed, so nothing was written."
        )
    return comparison


def _run(path: Path, pixels: Array) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    batches = [
        session.run(["probabilities"], {"pixels": pixels[start : start + BATCH]})[0]
        for start in range(0, len(pixels), BATCH)
    ]
    return np.concatenate(batches)


@dataclass(frozen=True)
class _Labels:
    """The labels of the images to compare on, and which of them accuracies are about."""

    labels: Array
    new: Array  # whether each was not trained on, as far as is known
    known: bool  # whether that is known

    @property
    def trained_count(self) -> int | None:
        """Returns how many images were trained on; None if that is not known."""
        return int((~self.new).sum()) if self.known else None

    def accuracy(self, probabilities: Array) -> float:
        """Returns the share of new images whose most probable class is the right one."""
        return float((probabilities.argmax(1) == self.labels)[self.new].mean())


def _comparison_images(
    classifier: PromptClassifier, check: Dataset | None
) -> tuple[Array, _Labels | None]:
    """Returns images to compare on, resized and cropped, and their labels if they have any."""
    backbone = classifier.learner_.backbone
    if check is None:
        with TemporaryDirectory() as folder:
            scenes = scenes_dataset(Path(folder), train=0, test=2)
            return np.stack([crop(backbone, item.path) for item in scenes.test]), None
    names = [str(name) for name in classifier.classes_]
    items = check.test or check.train
    items = items[:: 1 + (len(items) - 1) // MAX_IMAGES]  # evenly spaced
    trained = find_trained(classifier.result_, items, FeatureStore(backbone))
    pixels, labels, new = [], [], []
    for item in items:
        with suppress(UnreadableImageError):
            pixels.append(crop(backbone, item.path))
            labels.append(names.index(check.class_names[item.label]))
            new.append(item not in (trained or ()))
    if not pixels:
        raise ConfigError(f"{check.display_name} has no readable image to check with.")
    return np.stack(pixels), _Labels(np.array(labels), np.array(new), trained is not None)


def check_packages() -> None:
    """Raises ConfigError, with the command that installs it, if a package is not installed."""
    require("ONNX", "onnx", "onnx", "onnxruntime")


@contextmanager
def quiet_export() -> Iterator[None]:
    """Hides the exporters' own warnings and log messages; errors are still raised."""
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.root.setLevel(level)
