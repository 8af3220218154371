"""The images of a fit with their features, and hashes by which they are recognised again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.display.formatting import several
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter

# Of the 64 digits of a SHA-256. That one of a million images has the hash of one of ten thousand
# training images by chance happens once in 28,000 times.
HASH_DIGITS = 12
OF_PIXELS = "p"  # begins the hash of an image that has no file of its own


@dataclass(frozen=True)
class LabelledFeatures:
    """Readable images with their features, and notes on the unreadable ones."""

    items: tuple[Item, ...]
    features: Tensor  # (items, dim), normalised
    notes: tuple[str, ...]

    @property
    def labels(self) -> Tensor:
        """Returns the labels (items,)."""
        return torch.tensor([item.label for item in self.items], dtype=torch.long)


def encode_items(
    items: Sequence[Item],
    what: str,
    store: FeatureStore,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> LabelledFeatures:
    """Returns the readable images among `items`; with `strict`, an unreadable one is an error.

    `what` names the images in notes: "test", "novel".
    """
    images = store.encode([item.path for item in items], reporter)
    notes = note_unreadable(images.unreadable, what, strict)
    return LabelledFeatures(tuple(items[i] for i in images.indices), images.features, notes)


def draw_shots(
    dataset: Dataset,
    shots: int,
    seed: int,
    store: FeatureStore,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> tuple[LabelledFeatures, tuple[Item, ...]]:
    """Draw shots for training, as if the unreadable images were not in the dataset.

    Parameters
    ----------
    dataset : Dataset
        Where the training images come from.
    shots : int
        Images per class; of a class that has fewer, all are taken.
    seed : int
        Seed of the draw.
    store : FeatureStore
        Encodes the images.
    strict : bool, default=False
        Whether an unreadable image is an error.
    reporter : Reporter, optional
        Shows progress.

    Returns
    -------
    shots : LabelledFeatures
        The images drawn.
    rest : tuple of Item
        The training images that were not drawn.

    Raises
    ------
    DataError
        If a class has no readable training image or, with `strict`, if any image is unreadable.
    """
    pool, unreadable = dataset.train, list[str]()
    while True:
        drawn = sample_shots(pool, shots, seed)
        images = store.encode([item.path for item in drawn], reporter)
        if not images.unreadable:
            break
        unreadable += images.unreadable
        broken = set(drawn) - {drawn[index] for index in images.indices}
        pool = tuple(item for item in pool if item not in broken)
    notes = note_unreadable(unreadable, "training", strict)
    counts = [0] * len(dataset.class_names)
    for item in drawn:
        counts[item.label] += 1
    if 0 in counts:
        name = dataset.class_names[counts.index(0)]
        reason = f": {notes[0]}" if notes else "."
        raise DataError(f"Class {name!r} has no readable training image{reason}")
    small = [n for n, count in zip(dataset.class_names, counts, strict=True) if count < shots]
    if small:
        names = ", ".join(small[:5]) + (", ..." if len(small) > 5 else "")
        notes += (
            f"{several(len(small), 'class has', 'classes have')} fewer than {shots} training "
            f"images, all of which are used: {names}.",
        )
    drawn_items = set(drawn)
    rest = tuple(item for item in pool if item not in drawn_items)
    return LabelledFeatures(drawn, images.features, notes), rest


def note_unreadable(reasons: Sequence[str], what: str, strict: bool) -> tuple[str, ...]:
    """Returns a sentence on unreadable images; with `strict`, raises DataError for the first."""
    if not reasons:
        return ()
    if strict:
        raise DataError(f"Unreadable image: {reasons[0]}.")
    examples = "; ".join(reasons[:3]) + ("; ..." if len(reasons) > 3 else "")
    count = several(len(reasons), f"{what} image was", f"{what} images were")
    return (f"{count} skipped: {examples}.",)


def short_hashes(
    items: Sequence[Item], store: FeatureStore, reporter: Reporter = SILENT
) -> list[str | None]:
    """Returns the first digits of the SHA-256 of each image; None if it cannot be read."""
    hashes = store.hashes([item.path for item in items], reporter)
    return [
        digest and ("" if isinstance(item.path, Path) else OF_PIXELS) + digest[:HASH_DIGITS]
        for item, digest in zip(items, hashes, strict=True)
    ]


def hash_by_class(
    items: Sequence[Item], classes: int, store: FeatureStore
) -> tuple[tuple[str, ...], ...]:
    """Returns the hashes of the images of each class; nothing if an image cannot be read."""
    by_class: list[list[str]] = [[] for _ in range(classes)]
    for item, digest in zip(items, short_hashes(items, store), strict=True):
        if digest is None:
            return ()
        by_class[item.label].append(digest)
    return tuple(map(tuple, by_class))
