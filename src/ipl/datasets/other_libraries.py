"""Readers of other libraries' datasets: Hugging Face `datasets` and torchvision.

They are recognised by their attributes, so neither library is imported. Images are loaded when
they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ipl.datasets.dataset import (
    PART_NAMES,
    TEST,
    TRAIN,
    Dataset,
    Finding,
    Item,
    clean_class_name,
    held_out_findings,
    one_class_findings,
)
from ipl.datasets.hugging_face import (
    IMAGE,
    LABEL,
    SHOTS_KEPT,
    TEST_IMAGES,
    LabelledStream,
    dataset_name,
    find_column,
    is_hugging_face,
    is_stream,
)
from ipl.datasets.images import ImageSource
from ipl.support.errors import DataError


@dataclass(frozen=True)
class _Part:
    """The training or test part of another library's dataset."""

    class_names: tuple[str, ...]
    items: tuple[Item, ...]
    alike: bool = False
    findings: tuple[Finding, ...] = ()


def read_object(data: Any, held_out: str = TEST, shots: int = 16, to_test: bool = False) -> Dataset:
    """Returns the dataset of an object, or of a mapping with train and, optionally, test and val.

    `held_out` is the part that is held out, test or val. Of a stream, the images are kept that so
    many shots need. To test on, a single class is enough, and train is not needed.
    """
    name, parts, first = dataset_name(data), {TRAIN: data}, TRAIN
    if isinstance(data, Mapping):
        parts = {part: data[key] for key, part in PART_NAMES.items() if key in data}
        first = TRAIN if TRAIN in parts or not to_test else held_out
        if first not in parts:
            names = ", ".join(map(str, data)) or "none"
            raise DataError(f"{name} has the parts {names}; it needs {first}.")
        name = dataset_name(parts[first])
    used = {part: parts[part] for part in (TRAIN, held_out) if part in parts}
    read = {
        part: _read_stream(content, f"{name} {part}", shots if part == TRAIN else None)
        if is_stream(content)
        else _read(content, f"{name} {part}")
        for part, content in used.items()
    }
    known, tested = read[first], read.get(held_out)
    if tested is not None and tested.class_names != known.class_names:
        unknown = sorted({*tested.class_names} ^ {*known.class_names}) or tested.class_names
        raise DataError(f"{name}: train and test have different classes, first: {unknown[0]!r}.")
    sizes = {part: len(content) for part, content in parts.items() if hasattr(content, "__len__")}
    sizes |= {part: len(content.items) for part, content in read.items()}
    return Dataset(
        name,
        known.class_names,
        known.items if first == TRAIN else (),
        tested.items if tested else (),
        (
            *held_out_findings(sizes, held_out, name),
            *(finding for part in read.values() for finding in part.findings),
            *(one_class_findings(known.class_names) if to_test else ()),
        ),
        known.alike,
    )


def _read(data: Any, name: str) -> _Part:
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} is not a dataset; give a folder, a table, a list of images "
            "with its labels, or a dataset of torchvision or Hugging Face, which has a "
            "length and can be indexed."
        )
    if isinstance(getattr(data, "features", None), Mapping) or is_hugging_face(data):
        return _read_hugging_face(data, name)
    if hasattr(data, "dataset") and hasattr(data, "indices"):  # torch.utils.data.Subset
        whole = _read(data.dataset, name)
        items = tuple(whole.items[index] for index in data.indices)
        return _Part(whole.class_names, items, whole.alike)
    return _read_torchvision(data, name)


def _read_stream(data: Any, name: str, shots: int | None) -> _Part:
    """Returns what a fit with so many shots needs of a stream; None: what it scores."""
    stream = LabelledStream.of(data, name)
    classes = len(stream.class_names)
    count = SHOTS_KEPT * shots if shots is not None else -(-TEST_IMAGES // max(1, classes))
    items, findings = stream.first_of_each_class(count)
    return _Part(stream.class_names, items, findings=findings)


def _read_hugging_face(data: Any, name: str) -> _Part:
    image, label = find_column(data, name, IMAGE), find_column(data, name, LABEL)
    sources = _images(name, len(data), lambda index: data[index][image])
    return _part(name, data.features[label].names, sources, data[label])


def dataset_images(data: Any, what: str) -> list[ImageSource]:
    """Returns the images of a dataset of Hugging Face, which needs no labels."""
    name = dataset_name(data)
    if is_stream(data):
        raise DataError(
            f"{what} is a stream; predict_stream of ipl.inference classifies it batch by batch."
        )
    column = find_column(data, name, IMAGE)
    return _images(name, len(data), lambda index: data[index][column])


def _read_torchvision(data: Any, name: str) -> _Part:
    classes = next((getattr(data, n) for n in ("classes", "categories") if hasattr(data, n)), None)
    if not isinstance(classes, Sequence) or isinstance(classes, str):
        raise DataError(
            f"{name} is {type(data).__name__}, which has no list of classes; give a dataset of "
            "torchvision or Hugging Face, a folder or a CSV file."
        )
    for field in ("samples", "imgs", "_samples"):
        if rows := getattr(data, field, None):
            return _part(name, classes, (Path(p) for p, _ in rows), (label for _, label in rows))
    labels = next(
        (getattr(data, n) for n in ("targets", "labels", "_labels", "y") if hasattr(data, n)), None
    )
    if labels is None:
        raise DataError(f"{name} has no list of labels (targets, labels, _labels or y).")
    for field in ("_image_files", "_images"):
        if files := getattr(data, field, None):
            return _part(name, classes, map(Path, files), labels)
    return _part(name, classes, _images(name, len(data), lambda index: data[index][0]), labels)


def _images(name: str, count: int, take: Callable[[int], Any]) -> list[ImageSource]:
    lock = Lock()  # images are opened in threads, which not every dataset supports

    def source(index: int) -> ImageSource:
        def take_locked() -> Any:
            with lock:
                return take(index)

        return ImageSource(f"{name}[{index}]", take_locked)

    return [source(index) for index in range(count)]


def _part(
    name: str, classes: Sequence[Any], sources: Iterable[Path | ImageSource], labels: Iterable[Any]
) -> _Part:
    # torchvision's ImageNet has tuples of names, two of which start with the same name.
    alike = any(isinstance(c, tuple) for c in classes)
    names = tuple(clean_class_name(str(c[0] if isinstance(c, tuple) else c)) for c in classes)
    items = []
    for index, (source, label) in enumerate(zip(sources, labels, strict=True)):
        if label is None or not 0 <= int(label) < len(names):
            raise DataError(
                f"{name}[{index}] has the label {label}; allowed are 0 to {len(names) - 1}."
            )
        items.append(Item(source, int(label)))
    return _Part(names, tuple(items), alike)
