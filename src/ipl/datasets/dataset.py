"""A dataset: class names and lists of (path, label). No image is opened here."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ipl.datasets.images import ImageSource
from ipl.display.formatting import first_few, several
from ipl.support.errors import DataError

TRAIN, VAL, TEST = "train", "val", "test"
# What the parts are called in folders, in tables and by other libraries.
PART_NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}
EXAMPLES = 3  # files or classes that a sentence names
EMPTY_PART = "empty part"  # the kind of a finding on a held-out part without images
UNUSED = "unused part"  # the kind of a finding on a part that is not held out
NO_FIT = "ipl fit cannot use the data"


class Item(NamedTuple):
    """One image and the index of its class."""

    path: Path | ImageSource  # an ImageSource is inside another library's dataset
    label: int


@dataclass(frozen=True)
class Finding:
    """Something unusual about the data: what it is, in one sentence, and where.

    Parameters
    ----------
    kind : str
        A short name for programs, such as "broken link".
    note : str
        A sentence with the count, the first few names, and what becomes of them.
    names : tuple of str
        All files or classes that it is about.
    stops_fit : bool, default=False
        Whether the data cannot be trained on because of it.
    """

    kind: str
    note: str
    names: tuple[str, ...]
    stops_fit: bool = False


def make_finding(
    kind: str,
    names: Iterable[object],
    singular: str,
    plural: str,
    then: str = "",
    stops_fit: bool = False,
) -> tuple[Finding, ...]:
    """Returns a finding about these files or classes; none if there are none.

    `singular` and `plural` follow the count, `then` follows the names.
    """
    texts = tuple(str(name) for name in names)
    if not texts:
        return ()
    count = several(len(texts), singular, plural)
    if stops_fit:
        then += f"; {NO_FIT}"
    return (Finding(kind, f"{count}: {examples(texts)}{then}.", texts, stops_fit),)


def examples(names: Sequence[str]) -> str:
    """Returns the first few names, with dots if there are more."""
    return ", ".join(names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")


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
            raise DataError(
                f"{self.display_name} has only one class ({self.class_names[0]!r}); "
                "a classifier needs at least two."
            )
        for item in (*self.train, *self.test):
            if not 0 <= item.label < len(self.class_names):
                raise DataError(
                    f"{item.path} has label {item.label}; allowed are 0 to "
                    f"{len(self.class_names) - 1}, one for each class name."
                )

    @property
    def display_name(self) -> str:
        """Returns what messages call it: as it was given, else its name."""
        return self.source or self.name

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the sentences of the findings."""
        return tuple(finding.note for finding in self.findings)

    @property
    def test_notes(self) -> tuple[str, ...]:
        """Returns the same without what matters to a fit alone."""
        return tuple(finding.note for finding in self.findings if not finding.stops_fit)

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


def one_class_findings(names: Sequence[str]) -> tuple[Finding, ...]:
    """Returns a finding if there is only one class, with which a dataset may be made."""
    if len(names) != 1:
        return ()
    note = f"There is only one class ({names[0]}), and a classifier needs at least two; {NO_FIT}."
    return (Finding("single class", note, tuple(names), stops_fit=True),)


def held_out_findings(
    sizes: Mapping[str, int], held_out: str, source: object
) -> tuple[Finding, ...]:
    """Returns a finding on the part that is neither trained on nor held out, if there is one.

    `sizes` are the images of each part. Raises DataError if validation images are asked for and
    there are none.
    """
    if held_out == VAL and not sizes.get(VAL):
        raise DataError(f"{source} has no validation images (val) to hold out.")
    unused = TEST if held_out == VAL else VAL
    count = sizes.get(unused, 0)
    if not count:
        return ()
    note = f"{several(count, f'{unused} image is', f'{unused} images are')} not used"
    if unused == VAL:
        scored = "test images" if sizes.get(TEST) else "training images that are not drawn"
        note += f": the {scored} are held out, unless you ask for val (--held-out val)"
    return (Finding(UNUSED, f"{note}.", (unused,)),)


def hint_at_other_part(parts: Collection[str], asked: str) -> str:
    """Returns how to test on the val or test images that there are instead of those asked for."""
    other = {TEST: VAL, VAL: TEST}.get(asked)
    return f"; --held-out {other} uses its {other} images" if other in parts else ""


def quote_classes(names: Sequence[str]) -> str:
    """Returns "the class 'a'", or "the classes 'a', 'b', 'c' and 4 more"."""
    return f"the class{'es' if len(names) > 1 else ''} {first_few([repr(name) for name in names])}"


def clean_class_name(raw: str) -> str:
    """Returns a class name as a prompt says it: runs of underscores and white space are blanks.

    Letters with accents are one character each; macOS writes them as two in the names of folders.
    """
    return " ".join(unicodedata.normalize("NFC", raw).replace("_", " ").split())


def read_alike(names: Sequence[str]) -> bool:
    """Returns whether two of these names read the same to CLIP."""
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
