"""Few-shot sampling against the published algorithm, and the base/novel halves."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.support.errors import ConfigError


@pytest.fixture
def _global_random() -> Iterator[None]:
    state = random.getstate()
    yield
    random.setstate(state)


def _split(seed: int) -> list[Item]:
    """Returns a split of seven classes of 1 to 25 images, its labels in no order at all."""
    items = [
        Item(Path(f"{label}/{number}.jpg"), label)
        for label, count in enumerate((20, 5, 16, 17, 1, 25, 3))
        for number in range(count)
    ]
    random.Random(seed).shuffle(items)
    return items


def _published(items: list[Item], shots: int, seed: int) -> list[Item]:
    """Returns what CoOp's generate_fewshot_dataset draws after set_random_seed(seed)."""
    random.seed(seed)
    tracker = defaultdict(list)
    for item in items:
        tracker[item.label].append(item)
    chosen = []
    for pool in tracker.values():
        chosen.extend(random.sample(pool, shots) if len(pool) >= shots else pool)
    return chosen


@pytest.mark.usefixtures("_global_random")
@pytest.mark.parametrize(("shots", "seed"), [(1, 1), (16, 2), (100, 3)])
def test_the_published_sample(shots: int, seed: int) -> None:
    items = _split(seed)
    assert list(sample_shots(items, shots, seed)) == _published(items, shots, seed)


@pytest.mark.usefixtures("_global_random")
def test_the_global_stream_is_left_alone() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    sample_shots(_split(0), 4, 1)
    assert random.random() == expected


def test_less_than_one_shot_is_refused() -> None:
    with pytest.raises(ConfigError, match="shots is 0"):
        sample_shots(_split(0), 0, 1)


@pytest.mark.parametrize(("classes", "base"), [(4, 2), (5, 3)])
def test_halves(classes: int, base: int) -> None:
    names = tuple(f"class {number}" for number in range(classes))
    items = tuple(Item(Path(f"{label}.png"), label) for label in range(classes))
    first, second = split_base_novel(Dataset("d", names, items, items[::-1]))
    assert first.class_names == names[:base]
    assert second.class_names == names[base:]
    for half, start in ((first, 0), (second, base)):
        assert len(half.train) == len(half.test) == len(half.class_names)
        # An image keeps its class: the name its label stands for is the one it had.
        for item in (*half.train, *half.test):
            assert item.path.stem == str(item.label + start)


def test_too_few_classes_for_halves() -> None:
    items = tuple(Item(Path(f"{label}.png"), label) for label in range(3))
    with pytest.raises(ConfigError, match="at least 4"):
        split_base_novel(Dataset("d", ("a", "b", "c"), items))
