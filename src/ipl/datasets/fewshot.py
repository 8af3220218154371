"""Few-shot draws and base/novel halves, as in the published protocol."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ipl.datasets.dataset import Dataset, Item
from ipl.support.errors import ConfigError


def check_draw(shots: int, seed: int) -> None:
    """Raises ConfigError unless there is a shot or more, and every generator accepts the seed."""
    if shots < 1:
        raise ConfigError(f"shots is {shots}; it must be 1 or more.")
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed is {seed}; it must be from 0 to {2**32 - 1}.")


def sample_shots(items: Sequence[Item], shots: int, seed: int) -> tuple[Item, ...]:
    """Draw items of each label; 16 shots give the published 16-shot lists.

    Labels are drawn in the order of their first appearance from one random stream, so draw from
    all classes first and remove classes afterwards.

    Parameters
    ----------
    items : sequence of Item
        Where to draw from.
    shots : int
        Items per label; of a label that has fewer, all are taken.
    seed : int
        Seed of the random stream, from 0 to 2**32 - 1.

    Returns
    -------
    tuple of Item
        The items drawn.

    Raises
    ------
    ConfigError
        If `shots` or `seed` is out of range.
    """
    check_draw(shots, seed)
    by_label: dict[int, list[Item]] = {}
    for item in items:
        by_label.setdefault(item.label, []).append(item)
    stream = random.Random(seed)
    drawn: list[Item] = []
    for pool in by_label.values():
        drawn.extend(stream.sample(pool, shots) if len(pool) >= shots else pool)
    return tuple(drawn)


def split_base_novel(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """Returns the first ceil(n/2) classes and the rest, each relabelled as its own dataset."""
    labels = range(len(dataset.class_names))
    half = (len(labels) + 1) // 2
    if len(labels) - half < 2:
        raise ConfigError(
            f"{dataset.name} has {len(labels)} classes; base and novel halves of two or more "
            "need at least 4."
        )
    return (
        dataset.only(labels[:half], f"{dataset.name} (base)"),
        dataset.only(labels[half:], f"{dataset.name} (novel)"),
    )
