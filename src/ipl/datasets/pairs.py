"""Pictures and their class names as two lists, the way scikit-learn hands them over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import Picture
from ipl.errors import DataError


def read_pairs(images: Iterable[Any], labels: Iterable[Any]) -> Dataset:
    """Returns the data set of paths or pictures, and the name of the class of each."""
    sources = [_source(number, image) for number, image in enumerate(_listed(images, "X"))]
    names = read_labels(labels, len(sources))
    classes = sorted(set(names))
    if not classes:
        raise DataError("X and y are empty; give pictures and the class name of each.")
    label = {name: position for position, name in enumerate(classes)}
    items = tuple(Item(s, label[n]) for s, n in zip(sources, names, strict=True))
    return Dataset("pictures", tuple(classes), items)


def read_labels(labels: Iterable[Any], count: int) -> list[str]:
    """Returns class names as plain strings, one for each of `count` pictures."""
    names = _listed(labels, "y")
    for number, name in enumerate(names):
        if not isinstance(name, str):
            raise DataError(
                f"y[{number}] is {name!r}; a prompt needs the class's name, as a string."
            )
    if len(names) != count:
        raise DataError(f"X has {count} pictures and y has {len(names)} names; they go in pairs.")
    return [str(name) for name in names]


def _listed(values: Iterable[Any], what: str) -> list[Any]:
    if isinstance(values, str | os.PathLike | Image.Image) or not isinstance(values, Iterable):
        raise DataError(f"{what} is a single {type(values).__name__}; give a list.")
    return list(values)


def _source(number: int, image: Any) -> Path | Picture:
    if isinstance(image, Image.Image):
        return Picture(f"X[{number}]", lambda: image)
    if isinstance(image, str | os.PathLike):
        return Path(image)
    raise DataError(
        f"X[{number}] is {type(image).__name__}; it must be a path or a picture (PIL.Image)."
    )
