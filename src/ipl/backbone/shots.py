"""The images a fit looks at: shots drawn for training, the rest held out, broken files named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter


@dataclass(frozen=True)
class LabelledFeatures:
    """Readable images with their features, and a sentence on those that were not."""

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
    """Returns the readable images among `items`; with `strict` an unreadable one is an error."""
    seen = store.encode([item.path for item in items], reporter)
    notes = _note_unreadable(seen.unreadable, what, strict)
    return LabelledFeatures(tuple(items[index] for index in seen.kept), seen.features, notes)


def draw_shots(
    dataset: Dataset,
    shots: int,
    seed: int,
    store: FeatureStore,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> tuple[LabelledFeatures, tuple[Item, ...]]:
    """Returns the shots and the training images left over, as if no file were broken."""
    pool, unreadable = dataset.train, list[str]()
    while True:
        drawn = sample_shots(pool, shots, seed)
        seen = store.encode([item.path for item in drawn], reporter)
        if not seen.unreadable:
            break
        unreadable += seen.unreadable
        broken = set(drawn) - {drawn[index] for index in seen.kept}
        pool = tuple(item for item in pool if item not in broken)
    notes = _note_unreadable(unreadable, "training", strict)
    counts = [0] * len(dataset.class_names)
    for item in drawn:
        counts[item.label] += 1
    if 0 in counts:
        name = dataset.class_names[counts.index(0)]
        why = f": {notes[0]}" if notes else "."
        raise DataError(f"Class {name!r} has no readable training image{why}")
    few = [n for n, count in zip(dataset.class_names, counts, strict=True) if count < shots]
    if few:
        named = ", ".join(few[:5]) + (", ..." if len(few) > 5 else "")
        notes += (
            f"{len(few)} class(es) have fewer than {shots} training images; all they have are "
            f"used: {named}.",
        )
    chosen = set(drawn)
    rest = tuple(item for item in pool if item not in chosen)
    return LabelledFeatures(drawn, seen.features, notes), rest


def _note_unreadable(reasons: Sequence[str], what: str, strict: bool) -> tuple[str, ...]:
    if not reasons:
        return ()
    if strict:
        raise DataError(f"Unreadable image: {reasons[0]}.")
    named = "; ".join(reasons[:3]) + ("; ..." if len(reasons) > 3 else "")
    return (f"{len(reasons)} {what} image(s) were skipped: {named}.",)
