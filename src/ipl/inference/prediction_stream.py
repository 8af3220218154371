"""A stream of predictions: images in, a ranking of classes for each out, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ipl.backbone.encode_images import Source
from ipl.classifier import PromptClassifier
from ipl.datasets.hugging_face import is_hugging_face, stream_images
from ipl.datasets.images import MAX_PIXELS, ImageSource, open_image
from ipl.support.errors import ConfigError

BATCH = 64


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


def predict_stream(
    classifier: PromptClassifier,
    sources: Iterable[Path | Image.Image] | Any,
    ranking: Ranking | None = None,
    advance: Callable[..., None] | None = None,
    max_pixels: int = MAX_PIXELS,
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
        than 25,000,000 pixels is decoded at a reduced size. Formats that take more memory for a
        pixel have a lower limit beyond 25,000,000: WebP a quarter.

    Yields
    ------
    list of Prediction
        The predictions of up to 64 images. An image that cannot be read has an `error`.

    Raises
    ------
    NotFittedError
        If the classifier has not been fitted.
    """
    ranking = ranking or Ranking()
    with torch.no_grad():
        logits = classifier.learner_.head()
    remaining = stream_images(sources) if is_hugging_face(sources) else iter(sources)
    while batch := list(islice(remaining, BATCH)):
        yield _predict(classifier, logits, batch, ranking, max_pixels)
        if advance is not None:
            advance(len(batch))


@torch.no_grad()
def _predict(
    classifier: PromptClassifier,
    logits: Callable[[torch.Tensor], torch.Tensor],
    batch: list[Path | Image.Image],
    ranking: Ranking,
    max_pixels: int,
) -> list[Prediction]:
    images = classifier.encode_images([_limited(source, max_pixels) for source in batch])
    probabilities = logits(images.features).softmax(1).cpu().numpy()
    rows = dict(zip(images.indices, probabilities, strict=True))
    reasons = iter(images.unreadable)
    predictions = []
    for index, source in enumerate(batch):
        name = "image" if isinstance(source, Image.Image) else _text(source)
        if index in rows:
            row = rows[index]
            best = row.argsort(kind="stable")[::-1][: ranking.top]
            pairs = ((str(classifier.classes_[i]), float(row[i])) for i in best)
            classes = tuple(pair for pair in pairs if pair[1] >= ranking.threshold)
            predictions.append(Prediction(name, classes))
        else:
            reason = next(reasons).removeprefix(f"{source}: ")
            predictions.append(Prediction(name, error=reason))
    return predictions


def _limited(source: Path | Image.Image, max_pixels: int) -> Source:
    """Returns the source of an image; a file is opened with this limit."""
    if isinstance(source, Path) and max_pixels != MAX_PIXELS:
        return ImageSource(str(source), lambda: open_image(source, max_pixels))
    return source


def printable(text: str) -> str:
    """Returns a text without characters that move the cursor or break a line; they are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text(path: Path) -> str:
    # A file name may hold bytes that are not text; what is written must be text.
    return str(path).encode("utf-8", "backslashreplace").decode()
