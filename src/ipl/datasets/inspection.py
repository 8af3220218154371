"""What is unusual about a dataset: copies of images, classes that are not tested, odd names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ipl.datasets.copies import find_same_bytes
from ipl.datasets.dataset import PART_NAMES, Dataset, Finding, Item, findings_on
from ipl.datasets.images import UnreadableImageError, open_image
from ipl.support.progress import SILENT, Reporter

MAX_COMPARED = 100_000  # images; more would have to be read for minutes before a fit


def inspect_dataset(dataset: Dataset, unreadable: Mapping[Item, str] = {}) -> Dataset:
    """The dataset with findings on its images and class names; no image is decoded.

    `unreadable` is what `find_unreadable` returned, if it was asked.
    """
    trained = {item.label for item in dataset.train}
    readable = {item.label for item in dataset.train if item not in unreadable}
    unusable = [dataset.class_names[label] for label in sorted(trained - readable)]
    more = (
        *_find_untested(dataset, unreadable),
        *_find_copies(dataset),
        *_odd_names(dataset.class_names),
        *findings_on("unreadable image", unreadable.values()),
        *findings_on("class without readable training images", unusable, stops_fit=True),
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


def _find_untested(dataset: Dataset, unreadable: Mapping[Item, str]) -> tuple[Finding, ...]:
    if not dataset.test:
        return ()
    tested = {item.label for item in dataset.test if item not in unreadable}
    untested = [name for label, name in enumerate(dataset.class_names) if label not in tested]
    advice = "the held-out accuracy says nothing about such a class"
    return findings_on("class without held-out images", untested, advice)


def _find_copies(dataset: Dataset) -> tuple[Finding, ...]:
    items = (*dataset.train, *dataset.test)
    if len(items) > MAX_COMPARED:
        advice = f"there are more than {MAX_COMPARED:,}"
        return findings_on("not searched for copies", [f"{len(items):,} images"], advice)
    repeated, leaked, contradictory = [], [], []
    for group in find_same_bytes([item.path for item in items]):
        text = " = ".join(dict.fromkeys(str(items[index].path) for index in group))
        labels = sorted({items[index].label for index in group})
        places = Counter((index < len(dataset.train), items[index].label) for index in group)
        if len(labels) > 1:
            names = ", ".join(dataset.class_names[label] for label in labels)
            contradictory.append(f"{text} ({names})")
        if len({part for part, _ in places}) > 1:
            leaked.append(text)
        if max(places.values()) > 1:
            repeated.append(text)
    too_high = "the held-out accuracy may be too high"
    return (
        *findings_on("copy in two classes", contradictory),
        *findings_on("copy in training and held-out images", leaked, too_high),
        *findings_on("copy in a class", repeated),
    )


def _odd_names(names: Sequence[str]) -> tuple[Finding, ...]:
    numbers = names if all(name.replace(".", "", 1).isdigit() for name in names) else ()
    better = "names that say what is in the images work better, unless they show numbers"
    english = "CLIP has learnt from English captions, so English names may work better"
    folders = "to hold images out, put all class folders into train and test"
    return (
        *findings_on("numbers as class names", numbers, better),
        *findings_on("class name beyond ASCII", [n for n in names if not n.isascii()], english),
        *findings_on("part as a class", [n for n in names if n.casefold() in PART_NAMES], folders),
    )
