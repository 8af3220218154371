"""Datasets from two lists, images and class names, as scikit-learn passes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import ImageSource
from ipl.datasets.readers import read_dataset
from ipl.support.errors import DataError


def read_data(data: Any, labels: Any = None, strict: bool = False) -> Dataset:
    """Returns what `read_dataset` reads or, with labels, the dataset of images and class names."""
    if labels is not None:
        return _read_pairs(data, labels)
    if isinstance(data, list | tuple | np.ndarray):
        raise DataError("y is missing; with a list of images, give the class name of each.")
    return read_dataset(data, strict)


def _read_pairs(images: Iterable[Any], labels: Iterable[Any]) -> Dataset:
    sources = read_sources(images, "X")
    names = read_labels(labels, len(sources))
    classes = sorted(set(names))
    if not classes:
        raise DataError("X and y are empty; give images and the class name of each.")
    label_of = {name: label for label, name in enumerate(classes)}
    items = tuple(Item(s, label_of[n]) for s, n in zip(sources, names, strict=True))
    return Dataset("images", tuple(classes), items)


def read_labels(labels: Iterable[Any], count: int) -> list[str]:
    """Returns class names as plain strings, one for each of `count` images."""
    names = read_names(labels, "y")
    if len(names) != count:
        raise DataError(f"X has {count} images but y has {len(names)} names; give one per image.")
    return names


def read_names(names: Iterable[Any], what: str) -> list[str]:
    """Returns class names as strings, given a list or an array; a single string is an error."""
    values = _to_list(names, what, "names")
    for index, name in enumerate(values):
        if not isinstance(name, str):
            raise DataError(
                f"{what}[{index}] is {name!r}; a prompt needs the class's name, as a string."
            )
    return [str(name) for name in values]


def read_sources(images: Iterable[Any], what: str) -> list[Path | ImageSource]:
    """Returns the images of a list of paths or of PIL images."""
    values = _to_list(images, what, "paths or images (PIL.Image)")
    return [_source(f"{what}[{index}]", image) for index, image in enumerate(values)]


def _to_list(values: Iterable[Any], what: str, kind: str) -> list[Any]:
    if isinstance(values, str | os.PathLike | Image.Image) or not isinstance(values, Iterable):
        raise DataError(f"{what} is a single {type(values).__name__}; give a list of {kind}.")
    return list(values)


def _source(name: str, image: Any) -> Path | ImageSource:
    if isinstance(image, Image.Image):
        return ImageSource(name, lambda: image)
    if isinstance(image, str | os.PathLike):
        return Path(image)
    raise DataError(f"{name} is {type(image).__name__}; it must be a path or an image (PIL.Image).")
