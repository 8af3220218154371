"""A dataset: class names and lists of (path, label). No image is opened here."""

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

    path: Path | ImageSource  # an ImageSource is inside another library's dataset
    label: int


@dataclass(frozen=True)
class Dataset:
    """Class names and the images of each part.

    Parameters
    ----------
    name : str
        The dataset's name, for messages and records.
    class_names : tuple of str
        Class names as a prompt says them, in the order of their labels.
    train : tuple of Item
        The images that shots are drawn from.
    test : tuple of Item, default=()
        The test images; if there are none, the training images that are not drawn are held out.
    notes : tuple of str, default=()
        Sentences on what a reader skipped.
    alike : bool, default=False
        Whether two class names may read the same to CLIP, as in ImageNet's published list.

    Raises
    ------
    DataError
        If there are fewer than two classes, a class name is empty, not ASCII or the same as
        another, or an item's label is not that of a class.
    """

    name: str
    class_names: tuple[str, ...]
    train: tuple[Item, ...]
    test: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    alike: bool = False

    def __post_init__(self) -> None:
        check_class_names(self.class_names, self.alike)
        if len(self.class_names) < 2:
            raise DataError(
                f"{self.name} has only one class ({self.class_names[0]!r}); "
                "a classifier needs at least two."
            )
        for item in (*self.train, *self.test):
            if not 0 <= item.label < len(self.class_names):
                raise DataError(
                    f"{item.path} has label {item.label}; allowed are 0 to "
                    f"{len(self.class_names) - 1}, one for each class name."
                )

    def only(self, labels: Sequence[int], name: str) -> Dataset:
        """Restrict the dataset to some of its classes.

        Parameters
        ----------
        labels : sequence of int
            Labels of the classes; the first one becomes label 0, and so on.
        name : str
            The name of the new dataset.

        Returns
        -------
        Dataset
            The images of these classes, relabelled.
        """
        new_labels = {label: index for index, label in enumerate(labels)}

        def relabel(items: Iterable[Item]) -> tuple[Item, ...]:
            return tuple(Item(i.path, new_labels[i.label]) for i in items if i.label in new_labels)

        return replace(
            self,
            name=name,
            class_names=tuple(self.class_names[label] for label in labels),
            train=relabel(self.train),
            test=relabel(self.test),
        )


def clean_class_name(raw: str) -> str:
    """Returns a class name as a prompt says it: runs of underscores and white space are blanks."""
    return " ".join(raw.replace("_", " ").split())


def read_alike(names: Sequence[str]) -> bool:
    """Returns whether two of these names read the same to CLIP."""
    return len({_as_read(name) for name in names}) < len(names)


def _as_read(name: str) -> str:
    return clean_class_name(name).lower()  # CLIP's tokenizer lower-cases


def check_class_names(names: Sequence[str], alike: bool = False) -> None:
    """Raises DataError for a name that is empty or not ASCII, and for two that read the same.

    With `alike`, two may read the same: ImageNet's published list calls two classes "missile".
    """
    if not names:
        raise DataError("There are no class names; give at least one.")
    names_by_key: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        if not clean_class_name(name):
            raise DataError(f"Class {number} has an empty name; every class needs a name.")
        if not name.isascii():
            ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
            hint = f", for example to {ascii_name!r}" if ascii_name.strip() else ""
            raise DataError(
                f"Class name {name!r} is not ASCII; CLIP reads English, so rename it{hint}."
            )
        key = _as_read(name)
        if key in names_by_key and not alike:
            raise DataError(
                f"Two classes have the same name: {names_by_key[key]!r} and {name!r} read the same "
                "to CLIP."
            )
        names_by_key[key] = name
