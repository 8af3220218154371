"""A dataset is class names and lists of (path, label); no image is opened here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ipl.datasets.images import ImageSource
from ipl.support.errors import DataError


class Item(NamedTuple):
    """One image and the index of its class."""

    path: Path | ImageSource  # the latter inside another library's dataset
    label: int


@dataclass(frozen=True)
class Dataset:
    """Class names and the images of each part. An empty `test` means: hold out what is left."""

    name: str
    class_names: tuple[str, ...]
    train: tuple[Item, ...]
    test: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader passed over, a sentence each
    alike: bool = False  # a published list of classes, in which two names may read the same

    def __post_init__(self) -> None:
        check_class_names(self.class_names, self.alike)
        if len(self.class_names) < 2:
            raise DataError(
                f"{self.name} has one class only ({self.class_names[0]!r}); "
                "a classifier needs at least two."
            )
        for item in (*self.train, *self.test):
            if not 0 <= item.label < len(self.class_names):
                raise DataError(
                    f"{item.path} has label {item.label}; allowed are 0 to "
                    f"{len(self.class_names) - 1}, one for each class name."
                )

    def only(self, labels: Sequence[int], name: str) -> Dataset:
        """Returns the dataset of these classes alone, relabelled from 0 in the given order."""
        new = {label: position for position, label in enumerate(labels)}

        def keep(items: Iterable[Item]) -> tuple[Item, ...]:
            return tuple(Item(i.path, new[i.label]) for i in items if i.label in new)

        return replace(
            self,
            name=name,
            class_names=tuple(self.class_names[label] for label in labels),
            train=keep(self.train),
            test=keep(self.test),
        )


def clean_class_name(raw: str) -> str:
    """Returns a class name as a prompt says it: underscores and runs of white space are blanks."""
    return " ".join(raw.replace("_", " ").split())


def read_alike(names: Sequence[str]) -> bool:
    """Returns whether two of these names are the same to CLIP."""
    return len({_as_read(name) for name in names}) < len(names)


def _as_read(name: str) -> str:
    return clean_class_name(name).lower()  # CLIP's tokenizer lower-cases


def check_class_names(names: Sequence[str], alike: bool = False) -> None:
    """Raises DataError for a name that is empty or not ASCII, and for two that read the same.

    `alike` allows the latter: ImageNet's published list calls two classes "missile".
    """
    if not names:
        raise DataError("There are no class names; give at least one.")
    seen: dict[str, str] = {}
    for position, name in enumerate(names, start=1):
        if not clean_class_name(name):
            raise DataError(f"Class {position} has an empty name; every class needs a name.")
        if not name.isascii():
            ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
            hint = f", for example to {ascii_name!r}" if ascii_name.strip() else ""
            raise DataError(
                f"Class name {name!r} is not ASCII; CLIP reads English, so rename it{hint}."
            )
        key = _as_read(name)
        if key in seen and not alike:
            raise DataError(
                f"Two classes have the same name: {seen[key]!r} and {name!r} read the same to CLIP."
            )
        seen[key] = name
