"""Predictions that stream: images in, a ranking each out, nothing kept in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ipl.classifier import PromptClassifier
from ipl.support.errors import ConfigError

BATCH = 64


@dataclass(frozen=True)
class Prediction:
    """The classes of one image, most probable first; or why it cannot be read."""

    image: str
    classes: tuple[tuple[str, float], ...] = ()
    error: str | None = None

    @property
    def shown(self) -> str:
        """Returns the image's name for one line of text: control characters are escaped."""
        return printable(self.image)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON: image and classes, or image and error."""
        if self.error is not None:
            return {"image": self.image, "error": self.error}
        ranked = [{"name": name, "probability": value} for name, value in self.classes]
        return {"image": self.image, "classes": ranked}


@dataclass(frozen=True)
class Ranking:
    """How many classes of an image are told, and how probable each has to be."""

    top: int = 5
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ConfigError(f"top is {self.top}; it must be 1 or more.")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}; it must be from 0 to 1.")


def predict_stream(
    classifier: PromptClassifier,
    sources: Iterable[Path | Image.Image],
    ranking: Ranking | None = None,
    advance: Callable[..., None] | None = None,
) -> Iterator[list[Prediction]]:
    """Yields the predictions of a batch of images after the other, in their order.

    `sources` may be endless: no more than one batch is taken from it, looked at and held.
    """
    ranking = ranking or Ranking()
    with torch.no_grad():
        classify = classifier.learner_.head()
    waiting = iter(sources)
    while batch := list(islice(waiting, BATCH)):
        yield _predict(classifier, classify, batch, ranking)
        if advance is not None:
            advance(len(batch))


@torch.no_grad()
def _predict(
    classifier: PromptClassifier,
    classify: Callable[[torch.Tensor], torch.Tensor],
    batch: list[Path | Image.Image],
    ranking: Ranking,
) -> list[Prediction]:
    seen = classifier.encode_images(batch)
    rows = dict(zip(seen.indices, classify(seen.features).softmax(1).cpu().numpy(), strict=True))
    reasons = iter(seen.unreadable)
    predictions = []
    for index, source in enumerate(batch):
        name = "image" if isinstance(source, Image.Image) else _text(source)
        if index in rows:
            row = rows[index]
            best = row.argsort(kind="stable")[::-1][: ranking.top]
            told = ((str(classifier.classes_[i]), float(row[i])) for i in best)
            classes = tuple(pair for pair in told if pair[1] >= ranking.threshold)
            predictions.append(Prediction(name, classes))
        else:
            why = next(reasons).removeprefix(f"{source}: ")
            predictions.append(Prediction(name, error=why))
    return predictions


def printable(text: str) -> str:
    """Returns a text for people, with what would move the cursor or break a line escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text(path: Path) -> str:
    # A file name may hold bytes that are no text; what is written must be text.
    return str(path).encode("utf-8", "backslashreplace").decode()
