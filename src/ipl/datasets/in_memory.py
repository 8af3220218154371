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
from ipl.datasets.hugging_face import is_hugging_face
from ipl.datasets.images import ImageSource
from ipl.datasets.other_libraries import dataset_images
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.support.errors import DataError


def read_data(
    data: Any,
    labels: Sequence[str | int] | None = None,
    strict: bool = False,
    held_out: str = TEST,
    shots: int = 16,
    to_test: bool = False,
) -> Dataset:
    """Returns what `read_dataset` reads or, with labels, the dataset of images and labels."""
    if labels is not None:
        return _read_pairs(data, labels)
    if isinstance(data, list | tuple | np.ndarray):
        raise DataError("y is missing; with a list of images, give the class name of each.")
    return read_dataset(data, strict, held_out, shots, to_test=to_test)


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
    """Returns each label once, in order: all are strings, or all are numbers."""
    return sorted(set(values))


def check_pairs(images: int, labels: Sequence[str | int]) -> None:
    """Raises DataError unless there are as many labels as images."""
    if len(labels) != images:
        raise DataError(
            f"X has {several(images, 'image')} but y has {several(len(labels), 'label')}; give one "
            "label per image."
        )


def read_labels(labels: Iterable[Any]) -> list[str | int]:
    """Returns labels as plain values, all of them strings or all of them whole numbers."""
    values = _to_list(labels, "y", "labels")
    if all(_is_whole(value) for value in values):
        return [int(value) for value in values]
    for index, value in enumerate(values):
        if not isinstance(value, str) and not _is_whole(value):
            raise DataError(
                f"y[{index}] is {value!r}; a label must be the class's name or a whole number."
            )
    return [str(value) for value in values]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


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
    """Returns the images of a list of paths or of PIL images, or of a Hugging Face dataset."""
    if is_hugging_face(images):
        return list(dataset_images(images, what))
    values = _to_list(images, what, "paths or images (PIL.Image)")
    return [_source(f"{what}[{index}]", image) for index, image in enumerate(values)]


def _to_list(values: Iterable[Any], what: str, kind: str) -> list[Any]:
    if hasattr(values, "iloc") and hasattr(values, "columns"):  # iterating gives column names
        columns = ", ".join(map(str, values.columns))
        raise DataError(f"{what} is a table with the columns {columns}; give one of them.")
    if hasattr(values, "__array__") and not isinstance(values, Iterable):
        values = np.asarray(values)
    if isinstance(values, str | os.PathLike | Image.Image) or not isinstance(values, Iterable):
        raise DataError(f"{what} is a single {type(values).__name__}; give a list of {kind}.")
    return list(values)


def _source(name: str, image: Any) -> Path | ImageSource:
    if isinstance(image, Image.Image):
        return ImageSource(name, lambda: image)
    if isinstance(image, str | os.PathLike):
        return Path(image)
    hint = " Image.fromarray makes one of an array." if isinstance(image, np.ndarray) else ""
    raise DataError(
        f"{name} is {type(image).__name__}; it must be a path or an image (PIL.Image).{hint}"
    )
