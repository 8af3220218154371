"""Datasets from two lists, images and labels, as scikit-learn passes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ipl.datasets.dataset import TEST, Dataset, Item
from ipl.datasets.images import ImageSource
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.support.errors import DataError


def read_data(
    data: Any,
    labels: Sequence[str | int] | None = None,
    held_out: str = TEST,
    to_test: bool = False,
) -> Dataset:
    """What `read_dataset` reads or, with labels, the dataset of images and labels."""
    if labels is not None:
        return _read_pairs(data, labels)
    _check_no_frame(data, "The data")
    if isinstance(data, list | tuple | np.ndarray):
        raise DataError("y is missing; with a list of images, give the class name of each.")
    return read_dataset(data, held_out, to_test=to_test)


def _read_pairs(images: Iterable[Any], labels: Sequence[str | int]) -> Dataset:
    sources = read_sources(images, "X")
    check_pairs(len(sources), labels)
    classes = sorted_labels(labels)
    if not classes:
        raise DataError("X and y are empty; give images and the class name of each.")
    label_of = {value: label for label, value in enumerate(classes)}
    items = tuple(Item(s, label_of[v]) for s, v in zip(sources, labels, strict=True))
    return Dataset("images", tuple(map(str, classes)), items)


def sorted_labels(values: Iterable[str | int]) -> list[str | int]:
    """Each label once, in order: all are strings, or all are numbers."""
    return sorted(set(values))


def check_pairs(images: int, labels: Sequence[str | int]) -> None:
    if len(labels) != images:
        raise DataError(
            f"X has {several(images, 'image')} but y has {several(len(labels), 'label')}; give one "
            "label per image."
        )


def read_labels(labels: Iterable[Any]) -> list[str | int]:
    """Labels as plain values, all of them strings or all of them whole numbers."""
    values = _to_list(labels, "y", "labels")
    whole = [isinstance(each, Integral) and not isinstance(each, bool) for each in values]
    for index, value in enumerate(values):
        if not whole[index] and not isinstance(value, str):
            raise DataError(
                f"y[{index}] is {value!r}; a label must be the class's name or a whole number."
            )
    return [int(each) for each in values] if all(whole) else [str(each) for each in values]


def read_names(names: Iterable[Any], what: str) -> list[str]:
    """Class names as strings, given a list or an array; a single string is an error."""
    values = _to_list(names, what, "names")
    for index, name in enumerate(values):
        if not isinstance(name, str):
            raise DataError(
                f"{what}[{index}] is {name!r}; a prompt needs the class's name, as a string."
            )
    return [str(name) for name in values]


def read_sources(images: Iterable[Any], what: str) -> list[Path | ImageSource]:
    """The images of a list or array: paths, images or arrays of pixels."""
    values = _to_list(images, what, "paths or images")
    return [_source(f"{what}[{index}]", image) for index, image in enumerate(values)]


def _to_list(values: Iterable[Any], what: str, kind: str) -> list[Any]:
    _check_no_frame(values, what)
    if hasattr(values, "__array__") and not isinstance(values, Iterable):
        values = np.asarray(values)
    if isinstance(values, str | os.PathLike | Image.Image) or not isinstance(values, Iterable):
        raise DataError(f"{what} is a single {type(values).__name__}; give a list of {kind}.")
    return list(values)


def _check_no_frame(values: Any, what: str) -> None:
    """Raises DataError, with what to type, for a data frame: iterating gives column names."""
    if hasattr(values, "iloc") and hasattr(values, "columns"):
        raise DataError(
            f"{what} is a data frame; give its columns of images and of labels, as in "
            "fit(df['path'], df['label'])."
        )


def _source(name: str, image: Any) -> Path | ImageSource:
    if isinstance(image, str | os.PathLike):
        return Path(image)
    if isinstance(image, Image.Image):
        return ImageSource(name, lambda: image)
    if not hasattr(image, "__array__"):
        raise DataError(
            f"{name} is {type(image).__name__}; it must be a path, an image (PIL.Image) or an "
            "array of its pixels."
        )
    pixels = np.asarray(image)
    shape = pixels.shape
    if pixels.dtype != np.uint8 or len(shape) not in (2, 3) or shape[2:] not in ((), (1,), (3,)):
        raise DataError(
            f"{name} is an array of {pixels.dtype} of shape {shape}; pixels must be bytes (uint8, "
            "0 to 255) of shape (height, width), or (height, width, 3) in RGB."
        )
    # Copied, so that a caller who reuses the array changes no image.
    made = Image.fromarray(pixels.reshape(shape[:2]) if shape[2:] == (1,) else pixels).copy()
    return ImageSource(name, lambda: made)
