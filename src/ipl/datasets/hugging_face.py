"""Datasets of Hugging Face: their columns, and those that are streamed.

They are recognised by their attributes, so the library is not imported. A stream is read from its
beginning, never twice at the same time, and no more of it is held than is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from ipl.datasets.dataset import PART_NAMES, TEST, TRAIN, Finding, Item, clean_class_name
from ipl.datasets.images import ImageSource, read_image
from ipl.display.formatting import several
from ipl.support.errors import DataError

IMAGE, LABEL = "Image", "ClassLabel"
SHOTS_KEPT = 2  # times the shots: seeds draw different ones, and something is left to hold out
TEST_IMAGES = 2000  # of a streamed test part that a fit scores, about the same of each class
MAX_ROWS = 100_000  # of a part that a fit reads, if a class remains rare


def is_hugging_face(data: Any) -> bool:
    """Returns whether an object is a dataset of Hugging Face, streamed or not."""
    return hasattr(data, "features") and hasattr(data, "cast_column")


def is_stream(data: Any) -> bool:
    """Returns whether an object is a streaming dataset of Hugging Face."""
    return is_hugging_face(data) and hasattr(data, "__iter__") and not hasattr(data, "__len__")


def find_column(data: Any, name: str, kind: str) -> str:
    """Returns the one column of images (Image) or labels (ClassLabel).

    Raises DataError if there is none, or more than one.
    """
    if not isinstance(data.features, Mapping):
        raise DataError(
            f"{name} does not know the types of its columns; name them with "
            "cast(Features(...)), or load it without streaming."
        )
    is_kind = {
        IMAGE: lambda each: type(each).__name__ == IMAGE,
        LABEL: lambda each: hasattr(each, "names"),
    }[kind]
    columns: list[str] = [key for key, each in data.features.items() if is_kind(each)]
    if len(columns) != 1:
        count = f"{len(columns)} {kind} columns ({', '.join(columns)})"
        method = "cast_column" if kind == IMAGE else "class_encode_column"
        raise DataError(
            f"{name} has {count if columns else f'no {kind} column'} among "
            f"{', '.join(data.features)}; it needs one (see select_columns and {method})."
        )
    return columns[0]


@dataclass(frozen=True)
class LabelledStream:
    """A streaming dataset of images and labels.

    Iterating reads it from its beginning and yields an Item for each row; the image is held only as
    long as its item.
    """

    name: str
    class_names: tuple[str, ...]
    data: Any

    @classmethod
    def of(cls, data: Any, name: str) -> LabelledStream:
        """Returns the stream of a dataset; raises DataError if it lacks images or labels."""
        find_column(data, name, IMAGE)
        names = data.features[find_column(data, name, LABEL)].names
        return cls(name, tuple(clean_class_name(str(each)) for each in names), data)

    @property
    def display_name(self) -> str:
        """Returns what messages call it."""
        return self.name

    def __iter__(self) -> Iterator[Item]:
        label = find_column(self.data, self.name, LABEL)
        for source, row in _rows(self.data, self.name):
            value = row[label]
            if value is None or not 0 <= int(value) < len(self.class_names):
                raise DataError(
                    f"{source} has the label {value}; allowed are 0 to {len(self.class_names) - 1}."
                )
            yield Item(source, int(value))

    def first_of_each_class(self, count: int) -> tuple[tuple[Item, ...], tuple[Finding, ...]]:
        """Returns the first images of each class, and a finding on how far the stream was read.

        It is read until every class has so many, or it ends, or MAX_ROWS rows were read.
        """
        counts, kept, rows, at_its_end = Counter[int](), list[Item](), 0, True
        for rows, item in enumerate(self, start=1):
            if counts[item.label] < count:
                counts[item.label] += 1
                kept.append(item)
            full = len(counts) == len(self.class_names) and min(counts.values()) == count
            if full or rows >= MAX_ROWS:
                at_its_end = False
                break
        note = (
            f"{self.name} is a stream: all of its {several(rows, 'row')} are used."
            if at_its_end and len(kept) == rows
            else f"{self.name} is a stream: of its first {several(rows, 'row')} the first "
            f"{several(count, 'image')} of each class are used; shuffle it if its rows are sorted."
        )
        return tuple(kept), (Finding("stream", note, (self.name,)),)


def read_stream(data: Any, held_out: str = TEST) -> LabelledStream | None:
    """Returns the held-out part of a streaming dataset, else its training part.

    Parameters
    ----------
    data : object
        A streaming dataset of Hugging Face, or a mapping of its parts.
    held_out : str
        The part that is held out, test or val.

    Returns
    -------
    LabelledStream or None
        The stream; None if the data is not streamed.
    """
    if isinstance(data, Mapping):
        parts = {PART_NAMES[key]: part for key, part in data.items() if key in PART_NAMES}
        part = held_out if held_out in parts else TRAIN
        data = parts.get(part)
    else:
        part = TRAIN
    return LabelledStream.of(data, f"{dataset_name(data)} {part}") if is_stream(data) else None


def stream_images(data: Any) -> Iterator[ImageSource]:
    """Yields the images of a dataset one by one; it needs no labels."""
    return (source for source, _ in _rows(data, dataset_name(data)))


def _rows(data: Any, name: str) -> Iterator[tuple[ImageSource, Mapping[str, Any]]]:
    """Yields the rows of a dataset, each with its image, which is not decoded yet."""
    column = find_column(data, name, IMAGE)
    kind = data.features[column]
    undecoded: Iterable[Mapping[str, Any]] = data.cast_column(column, type(kind)(decode=False))
    for index, row in enumerate(undecoded):
        yield _source(f"{name}[{index}]", row[column], kind), row


def _source(name: str, value: Any, kind: Any) -> ImageSource:
    content = value.get("bytes") if isinstance(value, Mapping) else None
    if content is not None:
        return ImageSource(name, lambda: read_image(BytesIO(content), name))
    # A path or an address, which the library opens, or nothing.
    return ImageSource(name, lambda: None if value is None else kind.decode_example(value))


def dataset_name(data: Any) -> str:
    """Returns the name of a dataset of another library, for messages."""
    info = getattr(data, "info", None)
    known = getattr(info, "dataset_name", None) or getattr(info, "builder_name", None)
    return str(known or type(data).__name__.lower())
