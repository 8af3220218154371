"""Few-shot draws and base/novel halves, as in the published protocol; a held-out part."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ipl.datasets.copies import find_copies
from ipl.datasets.dataset import Dataset, Item
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter

HELD_OUT = 0.2  # of each class, where the data has no test images


def sample_shots(items: Sequence[Item], shots: int, seed: int) -> tuple[Item, ...]:
    """Draw items of each label; 16 shots give the published 16-shot lists.

    Labels are drawn in the order of their first appearance from one random stream, so draw from
    all classes first and remove classes afterwards. Of a label that has fewer, all are taken.
    Raises ConfigError unless there is a shot or more.
    """
    if shots < 1:
        raise ConfigError(f"shots is {shots}; it must be 1 or more.")
    by_label: dict[int, list[Item]] = {}
    for item in items:
        by_label.setdefault(item.label, []).append(item)
    stream = random.Random(seed)
    drawn: list[Item] = []
    for pool in by_label.values():
        drawn.extend(stream.sample(pool, shots) if len(pool) >= shots else pool)
    return tuple(drawn)


def split_base_novel(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """The first ceil(n/2) classes and the rest, each relabelled as its own dataset."""
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


def hold_out(
    dataset: Dataset, fraction: float = HELD_OUT, seed: int = 0, reporter: Reporter = SILENT
) -> Dataset:
    """Move a part of each class's training images to the test images.

    Copies of an image, and images that look like copies, stay together. Of each class at least one
    image is held out and at least one is left, if it has two that are no copies.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"fraction is {fraction}; it must be between 0 and 1.")
    items = dataset.train
    group_of = dict[int, int]()
    for group in find_copies([item.path for item in items], reporter):
        group_of |= dict.fromkeys(group, group[0])
    groups = defaultdict[int, list[int]](list)
    for index in range(len(items)):
        groups[group_of.get(index, index)].append(index)
    by_label = defaultdict[int, list[list[int]]](list)
    for group in groups.values():
        labels = {items[index].label for index in group}
        if len(labels) == 1:  # an image that is in two classes is no good test
            by_label[labels.pop()].append(group)
    counts = Counter(item.label for item in items)
    stream, held = random.Random(seed), set[int]()
    for label, own in sorted(by_label.items()):
        wanted, drawn = max(1, round(fraction * counts[label])), list[int]()
        stream.shuffle(own)
        for group in own:
            if len(drawn) + len(group) <= min(wanted, counts[label] - 1):
                drawn += group
        smallest = min(own, key=len)
        if not drawn and len(smallest) < counts[label]:
            drawn = smallest
        held.update(drawn)
    return replace(
        dataset,
        train=tuple(item for index, item in enumerate(items) if index not in held),
        test=(*dataset.test, *(items[index] for index in sorted(held))),
    )
