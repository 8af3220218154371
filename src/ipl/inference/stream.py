"""A stream of predictions: images in, a ranking of classes for each out, one batch at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ipl.classifier import PromptClassifier
from ipl.datasets.images import MAX_PIXELS, ImageSource, UnreadableImageError, open_image
from ipl.inference.image_encoder import ImageEncoder
from ipl.support.errors import ConfigError

BATCH = 64
PART = 8  # images of a batch that a thread decodes and encodes on a CPU; more are not faster
DECODERS = 4  # threads that decode for a GPU
Array = np.ndarray[Any, Any]
Logits = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Prediction:
    """The classes of one image, most probable first, or the reason why it cannot be read.

    Parameters
    ----------
    image : str
        The path of the image, or "image" for an image in memory.
    classes : tuple of (str, float)
        Names and probabilities of the classes, most probable first.
    error : str or None
        Why the image cannot be read; None if it can.
    zero_shot : str or None
        What zero-shot CLIP takes it for, if the prompt was not trained on all of the classes and
        the two disagree.
    """

    image: str
    classes: tuple[tuple[str, float], ...] = ()
    error: str | None = None
    zero_shot: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: image and classes, or image and error."""
        if self.error is not None:
            return {"image": self.image, "error": self.error}
        ranked = [{"name": name, "probability": value} for name, value in self.classes]
        values: dict[str, Any] = {"image": self.image, "classes": ranked}
        return values if self.zero_shot is None else {**values, "zero_shot": self.zero_shot}


def predict_stream(
    classifier: PromptClassifier,
    sources: Iterable[Path | Image.Image],
    top: int = 5,
    threshold: float = 0.0,
    advance: Callable[..., None] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[list[Prediction]]:
    """Yield predictions batch by batch, in the order of the images.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier.
    sources : iterable of Path or PIL.Image.Image
        The images. It may be endless: only one batch is taken from it and held at a time.
    top : int
        How many classes of each image are returned at most, from the most probable on; 1 or more.
    threshold : float
        Classes that are less probable than this are left out; from 0 to 1.
    advance : callable, optional
        Called with the number of images after each batch, for a progress bar.
    max_pixels : int, default=100_000_000
        Pixels of an image file as it is decoded; a file with more has an `error`. A JPEG of more
        than 25,000,000 pixels is decoded at a reduced size.

    Yields
    ------
    list of Prediction
        The predictions of up to 64 images. An image that cannot be read has an `error`.

    Raises
    ------
    ConfigError
        If `top` or `threshold` is not allowed.
    sklearn.exceptions.NotFittedError
        If the classifier has not been fitted.
    """
    if top < 1:
        raise ConfigError(f"top is {top}; it must be 1 or more.")
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold is {threshold}; it must be from 0 to 1.")
    with torch.no_grad():
        logits, zero_shot = classifier.logits_function(), _second_opinion(classifier)
    encoder = ImageEncoder(classifier)
    remaining = iter(sources)
    try:
        with ThreadPoolExecutor(encoder.workers if encoder.on_cpu else DECODERS) as threads:
            while batch := list(islice(remaining, BATCH)):
                results = _encode(encoder, threads, batch, max_pixels)
                yield _rank(classifier, logits, zero_shot, batch, results, top, threshold)
                if advance is not None:
                    advance(len(batch))
    finally:
        encoder.close()


def _encode(
    encoder: ImageEncoder,
    threads: ThreadPoolExecutor,
    batch: Sequence[Path | Image.Image],
    max_pixels: int,
) -> list[torch.Tensor | UnreadableImageError]:
    """The feature of each image, or why it cannot be read.

    On a CPU each thread decodes and encodes a part of the batch, so that no core is idle.
    """

    def decode(image: Path | Image.Image) -> Array | UnreadableImageError:
        return _pixels(encoder, image, max_pixels)

    def encode(decoded: list[Any]) -> list[torch.Tensor | UnreadableImageError]:
        readable = [pixels for pixels in decoded if not isinstance(pixels, UnreadableImageError)]
        features = iter(encoder.encode(np.stack(readable)) if readable else ())
        return [
            pixels if isinstance(pixels, UnreadableImageError) else next(features)
            for pixels in decoded
        ]

    def encode_part(start: int) -> list[torch.Tensor | UnreadableImageError]:
        with encoder.share():
            return encode([decode(image) for image in batch[start : start + PART]])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about odd metadata
        if encoder.on_cpu:
            parts = threads.map(encode_part, range(0, len(batch), PART))
            return [each for part in parts for each in part]
        return encode(list(threads.map(decode, batch)))


def _pixels(
    encoder: ImageEncoder, source: Path | ImageSource | Image.Image, max_pixels: int
) -> Array | UnreadableImageError:
    """Bytes (height, width, 3) of an image, or why it cannot be read."""
    file = ImageSource("image", lambda: source) if isinstance(source, Image.Image) else source
    try:
        return encoder.preprocessing.evaluate(open_image(file, max_pixels))
    except UnreadableImageError as error:
        return error


def _second_opinion(classifier: PromptClassifier) -> Logits | None:
    """Zero-shot logits of features, if a class was not trained and the features are CLIP's own."""
    learner = classifier.learner_
    if not classifier.untrained_classes or learner.prompts_images:
        return None
    template, names = classifier.config.class_template, learner.prompts.class_names
    texts = learner.backbone.encode_texts([template.format(name) for name in names])
    return lambda features: learner.backbone.logits(features, texts)


@torch.no_grad()
def _rank(
    classifier: PromptClassifier,
    logits: Logits,
    zero_shot: Logits | None,
    batch: Sequence[Path | Image.Image],
    results: Sequence[torch.Tensor | UnreadableImageError],
    top: int,
    threshold: float,
) -> list[Prediction]:
    features = [each for each in results if not isinstance(each, UnreadableImageError)]
    no_features = classifier.learner_.backbone.no_features()
    stacked = torch.stack(features) if features else no_features
    rows = iter(logits(stacked).softmax(1).cpu().numpy())
    others = iter([] if zero_shot is None else zero_shot(stacked).argmax(1).tolist())
    predictions = []
    for source, result in zip(batch, results, strict=True):
        name = "image" if isinstance(source, Image.Image) else _text(source)
        if isinstance(result, UnreadableImageError):
            reason = str(result).removeprefix(f"{source}: ")
            predictions.append(Prediction(name, error=reason))
            continue
        row = next(rows)
        best = row.argsort(kind="stable")[::-1][:top]
        pairs = ((str(classifier.classes_[i]), float(row[i])) for i in best)
        classes = tuple(pair for pair in pairs if pair[1] >= threshold)
        other = next(others, best[0])
        disagrees = str(classifier.classes_[other]) if other != best[0] else None
        predictions.append(Prediction(name, classes, zero_shot=disagrees))
    return predictions


def _text(path: Path) -> str:
    # A file name may hold bytes that are not text; what is written must be text.
    return str(path).encode("utf-8", "backslashreplace").decode()
