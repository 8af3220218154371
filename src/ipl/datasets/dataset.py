"""A dataset: class names and lists of (path, label). No image is opened here."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ipl.datasets.images import ImageSource
from ipl.display.formatting import first_few
from ipl.support.errors import DataError

TRAIN, VAL, TEST = "train", "val", "test"
# What the parts are called in folders, in tables and by other libraries.
PART_NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}
UNUSED = "unused part"  # a part that is not held out
SINGLE_CLASS = "only one class"


class Item(NamedTuple):
    """One image and the index of its class."""

    path: Path | ImageSource  # an ImageSource is inside another library's dataset
    label: int


@dataclass(frozen=True)
class Finding:
    """Something unusual about the data."""

    kind: str  # what it is, such as "broken link"
    names: tuple[str, ...]  # all files or classes that it is about
    advice: str = ""  # what becomes of them, or what to do
    stops_fit: bool = False  # whether the data cannot be trained on because of it

    @property
    def note(self) -> str:
        """A sentence with the first few names."""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.kind[0].upper()}{self.kind[1:]}: {first_few(self.names)}{advice}."


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
    findings : tuple of Finding, default=()
        What a reader skipped or noticed.
    alike : bool, default=False
        Whether two class names may read the same to CLIP, as in ImageNet's published list.
    source : str, default=""
        The file or folder as it was given, for messages.

    Raises
    ------
    DataError
        If there are fewer than two classes and no finding says that a fit is not possible; if a
        class name is empty, not text or the same as another; or if an item's label is not that of
        a class.
    """

    name: str
    class_names: tuple[str, ...]
    train: tuple[Item, ...]
    test: tuple[Item, ...] = ()
    findings: tuple[Finding, ...] = ()
    alike: bool = False
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_class_names(self.class_names, self.alike)
        if len(self.class_names) < 2 and not any(found.stops_fit for found in self.findings):
            raise DataError(f"{self.display_name}: {one_class(self.class_names)[0].note}")
        for item in (*self.train, *self.test):
            if not 0 <= item.label < len(self.class_names):
                raise DataError(
                    f"{item.path} has label {item.label}; allowed are 0 to "
                    f"{len(self.class_names) - 1}, one for each class name."
                )

    @property
    def display_name(self) -> str:
        """What messages call it: as it was given, else its name."""
        return self.source or self.name

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the findings, without those that only a fit cannot accept."""
        return tuple(finding.note for finding in self.findings if not finding.stops_fit)

    def only(self, labels: Sequence[int], name: str) -> Dataset:
        """The images of some classes; the first of `labels` becomes 0, and so on."""
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


def findings_on(
    kind: str, names: Iterable[str], advice: str = "", stops_fit: bool = False
) -> tuple[Finding, ...]:
    """A finding about these files or classes; none if there are none."""
    names = tuple(names)
    return (Finding(kind, names, advice, stops_fit),) if names else ()


def one_class(names: Sequence[str]) -> tuple[Finding, ...]:
    """A finding if there is only one class, with which a dataset may be made."""
    advice = "a classifier needs at least two"
    return findings_on(SINGLE_CLASS, names if len(names) == 1 else (), advice, stops_fit=True)


def unused_part(parts: Collection[str], held_out: str, source: object) -> tuple[Finding, ...]:
    """A finding if there are images that are neither trained on nor held out.

    Raises DataError if validation images are asked for and there are none.
    """
    if held_out == TEST and VAL in parts:
        scored = "the test images" if TEST in parts else "training images that are not drawn"
        advice = f"{scored} are held out, unless you ask for val (--held-out val)"
        return (Finding(UNUSED, (VAL,), advice),)
    if held_out == VAL and VAL not in parts:
        raise DataError(f"{source} has no validation images (val) to hold out.")
    return (Finding(UNUSED, (TEST,)),) if held_out == VAL and TEST in parts else ()


def hint_at_other_part(parts: Collection[str], asked: str) -> str:
    """How to test on the val or test images that there are instead of those asked for."""
    other = {TEST: VAL, VAL: TEST}.get(asked)
    return f"; --held-out {other} uses its {other} images" if other in parts else ""


# -- class names ----------------------------------------------------------------------------------


def quote_classes(names: Sequence[str]) -> str:
    """Returns "the class 'a'", or "the classes 'a', 'b', 'c' and 4 more"."""
    return f"the class{'es' if len(names) > 1 else ''} {first_few([repr(name) for name in names])}"


def clean_class_name(raw: str) -> str:
    """A class name as a prompt says it: runs of underscores and white space are blanks.

    Letters with accents are one character each; macOS writes them as two in the names of folders.
    """
    return " ".join(unicodedata.normalize("NFC", raw).replace("_", " ").split())


def read_alike(names: Sequence[str]) -> bool:
    """Whether two of these names read the same to CLIP."""
    return len({_as_read(name) for name in names}) < len(names)


def _as_read(name: str) -> str:
    return clean_class_name(name).lower()  # CLIP's tokenizer lower-cases


def check_class_names(names: Sequence[str], alike: bool = False) -> None:
    """Raises DataError for a name that is empty or not text, and for two that read the same.

    With `alike`, two may read the same: ImageNet's published list calls two classes "missile".
    A name in any script is allowed: the tokenizer decides whether it can read it.
    """
    if not names:
        raise DataError("There are no class names; give at least one.")
    names_by_key: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        if not clean_class_name(name):
            raise DataError(f"Class {number} has an empty name; every class needs a name.")
        if any(unicodedata.category(c) in ("Cc", "Cs") and not c.isspace() for c in name):
            raise DataError(
                f"Class name {name!r} contains a control character or bytes that are not UTF-8; "
                "rename it."
            )
        key = _as_read(name)
        if key in names_by_key and not alike:
            raise DataError(
                f"Two classes have the same name: {names_by_key[key]!r} and {name!r} read the same "
                "to CLIP."
            )
        names_by_key[key] = name
