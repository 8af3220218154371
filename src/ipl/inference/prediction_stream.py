"""A stream of predictions: images in, a ranking of classes for each out, one batch at a time."""

from __future__ import annotations

import os
import time
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
from ipl.datasets.hugging_face import is_hugging_face, stream_images
from ipl.datasets.images import MAX_PIXELS, ImageSource, UnreadableImageError, open_image
from ipl.inference.engines import ImageEncoder
from ipl.support.errors import ConfigError

BATCH = 64
PART = 8  # images of a batch that a thread decodes and encodes on a CPU; more are not faster
DECODERS = 4  # threads that decode for a GPU
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Prediction:
    """The classes of one image, most probable first, or the reason why it cannot be read.

    Parameters
    ----------
    image
        The path of the image, or "image" for an image in memory.
    classes
        Names and probabilities of the classes, most probable first.
    error
        Why the image cannot be read; None if it can.
    """

    image: str
    classes: tuple[tuple[str, float], ...] = ()
    error: str | None = None

    @property
    def printable_image(self) -> str:
        """Returns the image's path for one line of text, with control characters escaped."""
        return printable(self.image)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON: image and classes, or image and error."""
        if self.error is not None:
            return {"image": self.image, "error": self.error}
        ranked = [{"name": name, "probability": value} for name, value in self.classes]
        return {"image": self.image, "classes": ranked}


@dataclass(frozen=True)
class Ranking:
    """Which classes of an image are returned.

    Parameters
    ----------
    top
        How many classes at most, from the most probable on.
    threshold
        Classes that are less probable than this are left out.

    Raises
    ------
    ConfigError
        If `top` is less than 1 or `threshold` is not between 0 and 1.
    """

    top: int = 5
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ConfigError(f"top is {self.top}; it must be 1 or more.")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}; it must be from 0 to 1.")


@dataclass
class PredictionSpeed:
    """How fast images were classified, beside how fast they could be decoded.

    Parameters
    ----------
    images
        Images so far, the unreadable ones included.
    seconds
        Time that decoding and classifying them took.
    decoding_seconds
        Processor time of all threads for decoding alone.
    """

    images: int = 0
    seconds: float = 0.0
    decoding_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Returns images per second."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def decoder_limit(self) -> float:
        """Returns images per second if all cores did nothing but decode."""
        cores = os.cpu_count() or 1
        return cores * self.images / self.decoding_seconds if self.decoding_seconds else 0.0

    def as_dict(self) -> dict[str, float]:
        """Returns plain values for JSON."""
        return {
            "images": self.images,
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.rate, 1),
            "decoder_limit_per_second": round(self.decoder_limit, 1),
        }


def predict_stream(
    classifier: PromptClassifier,
    sources: Iterable[Path | Image.Image] | Any,
    ranking: Ranking | None = None,
    advance: Callable[..., None] | None = None,
    max_pixels: int = MAX_PIXELS,
    speed: PredictionSpeed | None = None,
) -> Iterator[list[Prediction]]:
    """Yield predictions batch by batch, in the order of the images.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier.
    sources : iterable of Path or PIL.Image.Image, or a dataset of Hugging Face
        The images. It may be endless: only one batch is taken from it and held at a time. A dataset
        of Hugging Face, streamed or not, needs one Image column and no labels.
    ranking : Ranking, optional
        Which classes of each image are returned. The default is the five most probable ones.
    advance : callable, optional
        Called with the number of images after each batch, for a progress bar.
    max_pixels : int, default=100_000_000
        Pixels of an image file as it is decoded; a file with more has an `error`. A JPEG of more
        than 25,000,000 pixels is decoded at a reduced size.
    speed : PredictionSpeed, optional
        Counts images and times, batch by batch.

    Yields
    ------
    list of Prediction
        The predictions of up to 64 images. An image that cannot be read has an `error`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the classifier has not been fitted.
    """
    ranking, speed = ranking or Ranking(), speed or PredictionSpeed()
    with torch.no_grad():
        logits = classifier.learner_.head()
    encoder = ImageEncoder(classifier)
    remaining = stream_images(sources) if is_hugging_face(sources) else iter(sources)
    try:
        with ThreadPoolExecutor(encoder.workers if encoder.on_cpu else DECODERS) as threads:
            while batch := list(islice(remaining, BATCH)):
                started = time.perf_counter()
                results = _encode(encoder, threads, batch, max_pixels, speed)
                predictions = _rank(classifier, logits, batch, results, ranking)
                speed.images += len(batch)
                speed.seconds += time.perf_counter() - started
                del results
                yield predictions
                if advance is not None:
                    advance(len(batch))
    finally:
        encoder.close()


def _encode(
    encoder: ImageEncoder,
    threads: ThreadPoolExecutor,
    batch: Sequence[Path | Image.Image],
    max_pixels: int,
    speed: PredictionSpeed,
) -> list[torch.Tensor | UnreadableImageError]:
    """Returns the feature of each image, or why it cannot be read.

    On a CPU each thread decodes and encodes a part of the batch, so that no core is idle.
    """

    def decode(images: Sequence[Path | Image.Image]) -> tuple[list[Any], float]:
        started = time.thread_time()
        pixels = [_pixels(encoder, image, max_pixels) for image in images]
        return pixels, time.thread_time() - started

    def encode(decoded: list[Any]) -> list[torch.Tensor | UnreadableImageError]:
        readable = [pixels for pixels in decoded if not isinstance(pixels, UnreadableImageError)]
        features = iter(encoder.encode(np.stack(readable)) if readable else ())
        return [
            pixels if isinstance(pixels, UnreadableImageError) else next(features)
            for pixels in decoded
        ]

    def both(part: Sequence[Path | Image.Image]) -> tuple[list[Any], float]:
        with encoder.share():
            pixels, seconds = decode(part)
            return encode(pixels), seconds

    size = PART if encoder.on_cpu else 1
    parts = [batch[start : start + size] for start in range(0, len(batch), size)]
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about odd metadata
        for part, seconds in threads.map(both if encoder.on_cpu else decode, parts):
            results.extend(part)
            speed.decoding_seconds += seconds
    return results if encoder.on_cpu else encode(results)


def _pixels(
    encoder: ImageEncoder, source: Path | ImageSource | Image.Image, max_pixels: int
) -> Array | UnreadableImageError:
    """Returns bytes (height, width, 3) of an image, or why it cannot be read."""
    file = ImageSource("image", lambda: source) if isinstance(source, Image.Image) else source
    try:
        return encoder.preprocessing.evaluate(open_image(file, max_pixels))
    except UnreadableImageError as error:
        return error


@torch.no_grad()
def _rank(
    classifier: PromptClassifier,
    logits: Callable[[torch.Tensor], torch.Tensor],
    batch: Sequence[Path | Image.Image],
    results: Sequence[torch.Tensor | UnreadableImageError],
    ranking: Ranking,
) -> list[Prediction]:
    """Returns the predictions of a batch."""
    features = [each for each in results if not isinstance(each, UnreadableImageError)]
    no_features = classifier.learner_.backbone.no_features()
    stacked = torch.stack(features) if features else no_features
    rows = iter(logits(stacked).softmax(1).cpu().numpy())
    predictions = []
    for source, result in zip(batch, results, strict=True):
        name = "image" if isinstance(source, Image.Image) else _text(source)
        if isinstance(result, UnreadableImageError):
            reason = str(result).removeprefix(f"{source}: ")
            predictions.append(Prediction(name, error=reason))
            continue
        row = next(rows)
        best = row.argsort(kind="stable")[::-1][: ranking.top]
        pairs = ((str(classifier.classes_[i]), float(row[i])) for i in best)
        classes = tuple(pair for pair in pairs if pair[1] >= ranking.threshold)
        predictions.append(Prediction(name, classes))
    return predictions


def printable(text: str) -> str:
    """Returns a text without characters that move the cursor or break a line; they are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text(path: Path) -> str:
    # A file name may hold bytes that are not text; what is written must be text.
    return str(path).encode("utf-8", "backslashreplace").decode()
