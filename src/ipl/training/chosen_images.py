"""Which labelled images a prompt is measured on: not those that it was trained on.

Images of the training are recognised by the hashes that are saved with a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import OF_PIXELS, short_hashes
from ipl.datasets.dataset import Dataset, Item
from ipl.display.formatting import several
from ipl.support.progress import SILENT, Reporter
from ipl.training.result import FitResult

UNKNOWN = "all images; whether it was trained on some of them is not known"
NONE_TRAINED = "all images, none the same as one that it was trained on"


class ChosenImages(NamedTuple):
    """The images to measure on, and those that are left out as images of the training."""

    items: Sequence[Item]  # none if all are of the training
    images_from: str  # a phrase that says which they are
    notes: tuple[str, ...] = ()
    left_out: Sequence[Item] = ()


def choose_images(
    result: FitResult,
    dataset: Dataset,
    held_out: str,
    store: FeatureStore,
    everything: bool = False,
    reporter: Reporter = SILENT,
) -> ChosenImages:
    """The images of the held-out part (`test` or `val`), or all, without those of the training.

    With `everything` they are all images of both parts, those of the training too.
    """
    part = f"its {held_out} part"
    items = (*dataset.train, *dataset.test) if everything else dataset.test or dataset.train
    trained = find_trained(result, items, store, reporter)
    if everything and trained is None:
        return ChosenImages(items, "all images, also those of the training, if any")
    if trained is None:
        return ChosenImages(items, part if dataset.test else UNKNOWN)
    if everything:
        of_these = f"all images, {len(trained)} of which it was trained on"
        return ChosenImages(items, of_these if trained else NONE_TRAINED)
    notes = tuple[str, ...]()
    if not dataset.test and dataset.name == result.data and len(trained) < result.images:
        found, were, others = "None of the training images is", "it was", "them"
        if trained:
            found = f"{len(trained)} of the {result.images} training images are"
            were, others = "they were", "the others"
        notes = (
            f"{found} in {dataset.display_name} as {were}; changed copies of {others} may be among "
            "these images.",
        )
    if not trained:
        return ChosenImages(items, part if dataset.test else NONE_TRAINED, notes)
    rest = [item for item in items if item not in trained]
    without = f"without the {several(len(trained), 'image')} that it was trained on"
    if len(trained) > result.images:
        without = f"without {len(trained)} images that it was trained on, or copies of them"
    left_out = tuple(item for item in dict.fromkeys(items) if item in trained)
    images_from = f"{part}, {without}" if dataset.test else without
    return ChosenImages(rest, images_from, notes, left_out)


def find_trained(
    result: FitResult, items: Sequence[Item], store: FeatureStore, reporter: Reporter = SILENT
) -> frozenset[Item] | None:
    """The items that are images of the training, copies included.

    None if that cannot be told: the hashes may have been taken out of the file, and that of a file
    cannot be compared with one of pixels.
    """
    known = {digest for of_class in result.image_hashes for digest in of_class}
    of_files = {not digest.startswith(OF_PIXELS) for digest in known}  # or of pixels
    if not of_files or any(isinstance(item.path, Path) not in of_files for item in items):
        return None
    hashes = short_hashes(items, store, reporter)
    return frozenset(item for item, digest in zip(items, hashes, strict=True) if digest in known)


def find_shots(
    result: FitResult, items: Sequence[Item], store: FeatureStore
) -> tuple[Item, ...] | None:
    """The images of the training, class by class; None if one is not among the items.

    The labels of the items are those of the training.
    """
    if not result.image_hashes:
        return None
    available: dict[tuple[int, str | None], list[Item]] = {}
    for item, digest in zip(items, short_hashes(items, store), strict=True):
        available.setdefault((item.label, digest), []).append(item)
    shots = []
    for label, of_class in enumerate(result.image_hashes):
        for digest in of_class:
            copies = available.get((label, digest))
            if not copies:
                return None
            shots.append(copies.pop(0))
    return tuple(shots)
