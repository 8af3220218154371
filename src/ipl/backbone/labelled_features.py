"""The images of a fit with their features, and hashes by which they are recognised again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ipl.backbone.features import FeatureStore
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.display.formatting import first_few, several
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
        return torch.tensor([item.label for item in self.items], dtype=torch.long)

    def rows(self, indices: Sequence[int]) -> LabelledFeatures:
        """The images with these indices, without notes."""
        items = tuple(self.items[index] for index in indices)
        return LabelledFeatures(items, self.features[list(indices)], ())

    def at_most(self, count: int, seed: int) -> LabelledFeatures:
        """Up to so many images of each class, drawn at random."""
        of_class: dict[int, list[int]] = {}
        for index, item in enumerate(self.items):
            of_class.setdefault(item.label, []).append(index)
        if all(len(indices) <= count for indices in of_class.values()):
            return self
        stream = random.Random(seed)
        drawn = [i for all in of_class.values() for i in stream.sample(all, min(count, len(all)))]
        return self.rows(sorted(drawn))


def encode_items(
    items: Sequence[Item],
    what: str,
    store: FeatureStore,
    reporter: Reporter = SILENT,
) -> LabelledFeatures:
    """The readable images among `items`; `what` names them in notes: "test", "novel"."""
    images = store.encode([item.path for item in items], reporter)
    notes = note_unreadable(images.unreadable, what)
    return LabelledFeatures(tuple(items[i] for i in images.indices), images.features, notes)


def draw_shots(
    dataset: Dataset,
    shots: int | None,
    seed: int,
    store: FeatureStore,
    reporter: Reporter = SILENT,
) -> LabelledFeatures:
    """Draw shots of each class, or all, as if the unreadable images were not in the dataset.

    Raises DataError if a class has no readable training image.
    """
    pool, unreadable = dataset.train, list[str]()
    while True:
        drawn = pool if shots is None else sample_shots(pool, shots, seed)
        images = store.encode([item.path for item in drawn], reporter)
        if not images.unreadable:
            break
        unreadable += images.unreadable
        broken = set(drawn) - {drawn[index] for index in images.indices}
        pool = tuple(item for item in pool if item not in broken)
    notes = note_unreadable(unreadable, "training")
    counts = Counter(item.label for item in drawn)
    for label, name in enumerate(dataset.class_names):
        if not counts[label]:
            reason = f": {notes[0]}" if notes else "."
            raise DataError(f"Class {name!r} has no readable training image{reason}")
    labels = () if shots is None else [label for label in counts if counts[label] < shots]
    if small := [dataset.class_names[label] for label in sorted(labels)]:
        notes += (
            f"{several(len(small), 'class has', 'classes have')} fewer than {shots} training "
            f"images, all of which are used: {first_few(small)}.",
        )
    return LabelledFeatures(drawn, images.features, notes)


def note_unreadable(reasons: Sequence[str], what: str) -> tuple[str, ...]:
    """A sentence on unreadable images, if there are any."""
    if not reasons:
        return ()
    examples = "; ".join(reasons[:3]) + ("; ..." if len(reasons) > 3 else "")
    count = several(len(reasons), f"{what} image was", f"{what} images were")
    return (f"{count} skipped: {examples}.",)


def short_hashes(
    items: Sequence[Item], store: FeatureStore, reporter: Reporter = SILENT
) -> list[str | None]:
    """The first digits of the SHA-256 of each image; None if it cannot be read."""
    hashes = store.hashes([item.path for item in items], reporter)
    return [
        digest and ("" if isinstance(item.path, Path) else OF_PIXELS) + digest[:HASH_DIGITS]
        for item, digest in zip(items, hashes, strict=True)
    ]


def hash_by_class(
    items: Sequence[Item], classes: int, store: FeatureStore
) -> tuple[tuple[str, ...], ...]:
    """The hashes of the images of each class; nothing if an image cannot be read."""
    by_class: list[list[str]] = [[] for _ in range(classes)]
    for item, digest in zip(items, short_hashes(items, store), strict=True):
        if digest is None:
            return ()
        by_class[item.label].append(digest)
    return tuple(map(tuple, by_class))
