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
    Item,
    clean_class_name,
    held_out_findings,
)
from ipl.datasets.images import ImageSource
from ipl.support.errors import DataError


@dataclass(frozen=True)
class _Part:
    """The training or test part of another library's dataset."""

    class_names: tuple[str, ...]
    items: tuple[Item, ...]
    alike: bool = False


def read_object(data: Any, held_out: str = TEST) -> Dataset:
    """Returns the dataset of an object, or of a mapping with train and, optionally, test and val.

    `held_out` is the part that is held out, test or val.
    """
    name, parts = _name(data), {TRAIN: data}
    if isinstance(data, Mapping):
        parts = {part: data[key] for key, part in PART_NAMES.items() if key in data}
        if TRAIN not in parts:
            names = ", ".join(map(str, data)) or "none"
            raise DataError(f"{name} has the parts {names}; it needs train, and may have test.")
        name = _name(parts[TRAIN])
    used = {part: parts[part] for part in (TRAIN, held_out) if part in parts}
    read = {part: _read(content, f"{name} {part}") for part, content in used.items()}
    train, tested = read[TRAIN], read.get(held_out)
    if tested is not None and tested.class_names != train.class_names:
        unknown = sorted({*tested.class_names} ^ {*train.class_names}) or tested.class_names
        raise DataError(f"{name}: train and test have different classes, first: {unknown[0]!r}.")
    sizes = {part: len(content) for part, content in parts.items() if hasattr(content, "__len__")}
    return Dataset(
        name,
        train.class_names,
        train.items,
        tested.items if tested else (),
        held_out_findings(sizes, held_out, name),
        train.alike,
    )


def _read(data: Any, name: str) -> _Part:
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{name} is {type(data).__name__}, which has no length or cannot be indexed; load it "
            "as a whole, not as a stream."
        )
    if isinstance(getattr(data, "features", None), Mapping):
        return _read_hugging_face(data, name)
    if hasattr(data, "dataset") and hasattr(data, "indices"):  # torch.utils.data.Subset
        whole = _read(data.dataset, name)
        items = tuple(whole.items[index] for index in data.indices)
        return _Part(whole.class_names, items, whole.alike)
    return _read_torchvision(data, name)


def _read_hugging_face(data: Any, name: str) -> _Part:
    images = [key for key, kind in data.features.items() if type(kind).__name__ == "Image"]
    labels = [key for key, kind in data.features.items() if hasattr(kind, "names")]
    for columns, what, method in (
        (images, "Image", "cast_column"),
        (labels, "ClassLabel", "class_encode_column"),
    ):
        if len(columns) != 1:
            count = f"{len(columns)} {what} columns ({', '.join(columns)})"
            raise DataError(
                f"{name} has {count if columns else f'no {what} column'} among "
                f"{', '.join(data.features)}; it needs one (see select_columns and {method})."
            )
    image, label = images[0], labels[0]
    sources = _images(name, len(data), lambda index: data[index][image])
    return _part(name, data.features[label].names, sources, data[label])


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


def _name(data: Any) -> str:
    info = getattr(data, "info", None)
    known = getattr(info, "dataset_name", None) or getattr(info, "builder_name", None)
    return str(known or type(data).__name__.lower())
