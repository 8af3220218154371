"""Few-shot sampling and base/novel halves, as the published protocol does them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ipl.datasets.dataset import Dataset, Item
from ipl.support.errors import ConfigError


def check_draw(shots: int, seed: int) -> None:
    """Raises ConfigError unless there are shots, and a seed that every generator takes."""
    if shots < 1:
        raise ConfigError(f"shots is {shots}; it must be 1 or more.")
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed is {seed}; it must be from 0 to {2**32 - 1}.")


def sample_shots(items: Sequence[Item], shots: int, seed: int) -> tuple[Item, ...]:
    """Returns up to `shots` items of each label; with 16 shots the published 16-shot lists.

    Labels are taken in order of first appearance from one random stream, so sample over all
    classes first and leave classes out afterwards.
    """
    check_draw(shots, seed)
    by_label: dict[int, list[Item]] = {}
    for item in items:
        by_label.setdefault(item.label, []).append(item)
    stream = random.Random(seed)
    chosen: list[Item] = []
    for pool in by_label.values():
        chosen.extend(stream.sample(pool, shots) if len(pool) >= shots else pool)
    return tuple(chosen)


def split_base_novel(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """Returns the first ceil(n/2) classes and the rest, each a closed set of its own."""
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
