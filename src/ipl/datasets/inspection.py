"""What is unusual about a dataset: copies of images, classes that are not tested, odd names."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ipl.datasets.dataset import EMPTY_PART, Dataset, Finding, Item, examples, make_finding
from ipl.datasets.images import UnreadableImageError, open_image
from ipl.display.formatting import listed
from ipl.support.progress import SILENT, Reporter

MAX_COMPARED = 100_000  # images; more would have to be read for minutes before a fit
HEAD = 4096  # bytes that are compared before whole files are
TRAINING, HELD_OUT = 0, 1
Copy = tuple[int, Item]  # the part and the image


def inspect_dataset(
    dataset: Dataset, shots: int | None = None, unreadable: Mapping[Item, str] | None = None
) -> Dataset:
    """Add what is unusual about the images and class names to a dataset's findings.

    Files are compared byte by byte; no image is decoded.

    Parameters
    ----------
    dataset : Dataset
        The dataset.
    shots : int, optional
        How many images of each class will be drawn, to tell which classes have no image left.
    unreadable : mapping of Item to str, optional
        What `find_unreadable` returned; such images do not count. Default: not known.

    Returns
    -------
    Dataset
        The same dataset with more findings.
    """
    more = (
        *_find_untested(dataset, shots, unreadable or {}),
        *_find_copies(dataset),
        *_check_names(dataset.class_names),
        *(() if unreadable is None else _note_unreadable(dataset, unreadable)),
    )
    return replace(dataset, findings=(*dataset.findings, *more))


def find_unreadable(dataset: Dataset, reporter: Reporter = SILENT) -> dict[Item, str]:
    """Opens every image; returns those that cannot be read, each with its name and the reason."""
    unreadable = {}
    items = (*dataset.train, *dataset.test)
    with reporter.task("Opening images", len(items)) as advance:
        for item in items:
            try:
                open_image(item.path)
            except UnreadableImageError as error:
                unreadable[item] = str(error)
            advance()
    return unreadable


def _note_unreadable(dataset: Dataset, unreadable: Mapping[Item, str]) -> tuple[Finding, ...]:
    """Returns findings on unreadable images, and on classes without a readable training image."""
    readable = {item.label for item in dataset.train if item not in unreadable}
    empty = [name for label, name in enumerate(dataset.class_names) if label not in readable]
    return (
        *make_finding(
            "unreadable image",
            unreadable.values(),
            "image cannot be read",
            "images cannot be read",
        ),
        *make_finding(
            "class without readable training images",
            empty,
            "class has no readable training image",
            "classes have no readable training image",
            stops_fit=True,
        ),
    )


def _find_untested(
    dataset: Dataset, shots: int | None, unreadable: Mapping[Item, str]
) -> tuple[Finding, ...]:
    if any(finding.kind == EMPTY_PART for finding in dataset.findings):
        return ()  # which says it for all classes
    counts = [0] * len(dataset.class_names)
    for item in dataset.test or dataset.train:
        counts[item.label] += item not in unreadable
    drawn = 0 if dataset.test else shots  # training images that are drawn cannot be held out
    if drawn is None:
        return ()
    untested = [n for n, count in zip(dataset.class_names, counts, strict=True) if count <= drawn]
    if len(untested) == len(counts):
        note = "No image is left to measure the accuracy on: " + (
            "no held-out image can be read."
            if dataset.test
            else f"{shots} of each class are drawn to train on, and no class has more. "
            + ("Use fewer shots, or add images." if max(counts) > 1 else "Add images.")
        )
        return (Finding("no held-out images", note, tuple(untested)),)
    return make_finding(
        "class without held-out images",
        untested,
        "class has no held-out image",
        "classes have no held-out image",
        "; the held-out accuracy says nothing about " + ("it" if len(untested) == 1 else "them"),
    )


def _find_copies(dataset: Dataset) -> tuple[Finding, ...]:
    images = [(TRAINING, item) for item in dataset.train]
    images += [(HELD_OUT, item) for item in dataset.test]
    if len(images) > MAX_COMPARED:
        note = (
            f"The {len(images):,} images were not searched for copies, because there are more than "
            f"{MAX_COMPARED:,}."
        )
        return (Finding("not compared", note, ()),)
    repeated, leaked, contradictory = [], [], []
    for group in _groups(images):
        text = " = ".join(dict.fromkeys(str(item.path) for _, item in group))
        if len({item.label for _, item in group}) > 1:
            names = sorted({dataset.class_names[item.label] for _, item in group})
            contradictory.append(f"{text} ({', '.join(names)})")
        if len({part for part, _ in group}) > 1:
            leaked.append(text)
        keys = sorted((part, item.label) for part, item in group)
        if any(len(list(same)) > 1 for _, same in groupby(keys)):
            repeated.append(text)
    # Without a test part, the images that are not drawn are held out.
    then = "" if dataset.test else "; one copy may be trained on and another held out"
    return (
        *make_finding(
            "copy in two classes",
            contradictory,
            "image is in more than one class",
            "images are in more than one class",
        ),
        *make_finding(
            "copy in training and held-out images",
            leaked,
            "image is both a training and a held-out image",
            "images are both training and held-out images",
            "; the held-out accuracy may be too high",
        ),
        *make_finding(
            "copy in a class",
            repeated,
            "image is there more than once in its class",
            "images are there more than once in their classes",
            then,
        ),
    )


def _groups(images: Sequence[Copy]) -> list[list[Copy]]:
    """Returns the images that are in files with the same bytes, as groups of two or more."""
    groups = [list(images)]
    for key in (_size, _head, _digest):  # each reads more than the one before
        groups = [part for group in groups for part in _divide(group, key)]
    return groups


def _divide(group: Iterable[Copy], key: Callable[[Path], Hashable]) -> list[list[Copy]]:
    parts: dict[Hashable, list[Copy]] = defaultdict(list)
    for image in group:
        path = image[1].path
        if isinstance(path, Path):  # others are inside another library's dataset
            with suppress(OSError, ValueError):  # it cannot be read, which is said elsewhere
                parts[key(path)].append(image)
    parts.pop(None, None)
    return [part for part in parts.values() if len(part) > 1]


def _size(path: Path) -> int | None:
    """Returns the size of a file; None if it is empty, or a device or pipe that may never end."""
    return os.stat(path).st_size or None if path.is_file() else None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _check_names(names: Sequence[str]) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    if all(name.replace(".", "", 1).isdigit() for name in names):
        note = (
            f"The class names are numbers ({examples(names)}); unless the images show numbers, "
            "names that say what is in them work better."
        )
        findings.append(Finding("numbers as class names", note, tuple(names)))
    findings += make_finding(
        "class name beyond ASCII",
        [name for name in names if not name.isascii()],
        "class name has letters or signs beyond ASCII",
        "class names have letters or signs beyond ASCII",
        "; CLIP has learnt from English captions, so English names may work better",
    )
    parts = [name for name in names if name.casefold() in ("train", "test", "val")]
    if parts:
        folders = listed([repr(name) for name in parts])
        note = (
            f"{folders} {'is' if len(parts) == 1 else 'are'} read as a class like the others; to "
            "hold images out, put all class folders into train and test."
        )
        findings.append(Finding("part as a class", note, tuple(parts)))
    return tuple(findings)
