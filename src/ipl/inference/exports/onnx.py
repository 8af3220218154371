"""`--to onnx`: the image tower with its prompts and the classes in one file, in fp32 and int8."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ipl.backbone.features import FeatureStore, crop
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import UnreadableImageError
from ipl.datasets.scenes import scenes_dataset
from ipl.inference.exports.common import (
    check_export_folder,
    check_exportable,
    linear_layer,
    metadata,
)
from ipl.support.errors import ConfigError, IplError
from ipl.support.extras import require
from ipl.support.files import replace_folder, write_json
from ipl.training.chosen_images import choose_images

FP32, INT8, METADATA = "model.onnx", "model-int8.onnx", "export.json"
TOLERANCE = 1e-4  # between our probabilities and those of the fp32 file
MAX_IMAGES = 2000  # of a dataset that are compared
BATCH = 64
OPSET = 17
Array = np.ndarray[Any, Any]


class ImageTower(nn.Module):
    """From bytes (batch, height, width, 3), resized and cropped, to features (batch, dim)."""

    def __init__(self, classifier: PromptClassifier) -> None:
        super().__init__()
        self.learner = classifier.learner_
        backbone = self.learner.backbone
        self.clip = backbone.model  # registered, so that its weights have names
        layers = backbone.image_tower.layers if backbone.image_layers else ()
        for index, layer in enumerate(layers):  # only weights with a name can become int8
            for name, part in vars(layer).items():
                self.register_buffer(f"layer_{index}_{name}", part.weight)

    def forward(self, pixels: Tensor) -> Any:
        """Normalised features, with the learner's image prompts if it has any."""
        return self.learner.image_features(self.learner.backbone.preprocessing.normalise(pixels))


class _Network(ImageTower):
    """The same with the linear layer of the classes: logits and probabilities (batch, classes)."""

    def __init__(self, classifier: PromptClassifier) -> None:
        super().__init__(classifier)
        self.weight: Tensor
        self.bias: Tensor
        for name, tensor in zip(("weight", "bias"), linear_layer(classifier), strict=True):
            self.register_buffer(name, tensor)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.learner.backbone.logit_scale
        logits = scale * super().forward(pixels) @ self.weight.T + self.bias
        return logits, logits.softmax(-1)


def export_onnx(
    classifier: PromptClassifier, folder: Path, check: Dataset | None = None
) -> dict[str, Any]:
    """Write model.onnx, model-int8.onnx and export.json into a new or empty folder.

    Both models are run with onnxruntime and compared with our own predictions: on the images of
    `check` that the classifier was not trained on, with their accuracies, or on drawn scenes.
    Returns the content of export.json, with the comparison under "checked". Raises IplError if a
    package is missing, the learner cannot be exported, or the fp32 file's probabilities are not
    ours.
    """
    check_packages()
    check_export_folder(folder)
    check_exportable(classifier, "ONNX", image_prompts=True)
    if check is not None:
        classifier.columns(check.class_names, check.display_name)  # before it is computed
    backbone = classifier.learner_.backbone
    if backbone.device.type != "cpu":
        raise ConfigError("ONNX is written from the CPU; load the prompt with device cpu.")
    size = backbone.preprocessing.crop
    content = {
        "format": "ipl-onnx",
        "format_version": 1,
        **metadata(classifier),
        "input": {"pixels": ["batch", size, size, 3], "type": "uint8"},
        "outputs": {"logits": ["batch", len(classifier.classes_)], "probabilities": "the same"},
    }
    with replace_folder(folder) as work, quiet_export():
        write_fp32(_Network(classifier).eval(), work / FP32, size, ["logits", "probabilities"])
        write_int8(work / FP32, work / INT8)
        for name in (FP32, INT8):
            _add_metadata(work / name, content)
        content["checked"] = _compare(classifier, work, check)
        write_json(work / METADATA, content)
    return content


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
    usual, tempfile.tempdir = tempfile.tempdir, str(target.parent)  # a kill leaves nothing else
    try:
        quantize_dynamic(source, target, operators, per_channel=True, weight_type=QuantType.QInt8)
    finally:
        tempfile.tempdir = usual


def _add_metadata(path: Path, content: dict[str, Any]) -> None:
    """Adds classes and preprocessing to a model file, so that it can be used alone."""
    import onnx

    model = onnx.load(path)
    for name in ("classes", "preprocessing", "prompt", "words", "backbone"):
        value = content[name] if isinstance(content[name], str) else json.dumps(content[name])
        model.metadata_props.add(key=name, value=value)
    onnx.save(model, path)


def _compare(classifier: PromptClassifier, work: Path, check: Dataset | None) -> dict[str, Any]:
    """How the files compare with our own predictions; raises if fp32 is too far off."""
    backbone = classifier.learner_.backbone
    if check is None:
        with tempfile.TemporaryDirectory() as folder:
            scenes = scenes_dataset(Path(folder), train=0, test=2)
            pixels, _ = _crop(backbone, scenes.test)
    else:
        columns = classifier.columns(check.class_names, check.display_name)
        held_out, store = classifier.config.held_out, FeatureStore(backbone)
        items = choose_images(classifier.result_, check, held_out, store).items
        pixels, found = _crop(backbone, items[:: 1 + len(items) // (MAX_IMAGES + 1)])  # spaced
        labels = columns[[item.label for item in found]].numpy()
    if not len(pixels):
        raise ConfigError(
            f"{check and check.display_name} has no readable image that it was not trained on."
        )
    ours = classifier.predict_proba([Image.fromarray(image) for image in pixels])
    comparison: dict[str, Any] = {
        "images": len(pixels),
        "of": "drawn scenes" if check is None else check.display_name,
    }
    if check is not None:
        comparison["accuracy"] = float((ours.argmax(1) == labels).mean())
    for precision, file in (("fp32", FP32), ("int8", INT8)):
        theirs = _run(work / file, pixels)
        comparison[precision] = {
            "file": file,
            "bytes": (work / file).stat().st_size,
            "largest_difference": float(np.abs(theirs - ours).max()),
            "agreement": float((theirs.argmax(1) == ours.argmax(1)).mean()),
        }
        if check is not None:
            comparison[precision]["accuracy"] = float((theirs.argmax(1) == labels).mean())
    difference = comparison["fp32"]["largest_difference"]
    if difference > TOLERANCE:
        raise IplError(
            f"A probability of the ONNX file differs from ours by {difference:.2e}; at most "
            f"{TOLERANCE:g} is allowed, so nothing was written."
        )
    return comparison


def _crop(backbone: Any, items: Sequence[Item]) -> tuple[Array, list[Item]]:
    """The readable images, resized and cropped, and their items."""
    pixels, readable = [], []
    for item in items:
        try:
            pixels.append(crop(backbone, item.path))
        except UnreadableImageError:
            continue
        readable.append(item)
    return np.array(pixels), readable


def _run(path: Path, pixels: Array) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    batches = [
        session.run(["probabilities"], {"pixels": pixels[start : start + BATCH]})[0]
        for start in range(0, len(pixels), BATCH)
    ]
    return np.concatenate(batches)


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
