"""Few-shot sampling against the published algorithm, and the base/novel halves."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import hold_out, sample_shots, split_base_novel
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


@pytest.mark.parametrize("shots", [0, -1])
def test_a_sample_has_a_shot_or_more(shots: int) -> None:
    with pytest.raises(ConfigError, match=f"shots is {shots}; it must be 1 or more"):
        sample_shots(_split(1), shots, 1)


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


# -- a held-out part ------------------------------------------------------------------------------


def _picture(number: int) -> Image.Image:
    noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((160, 120), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Returns images of classes of 10, 5, 2, 1 and 4, all different."""
    folder, items = tmp_path_factory.mktemp("pictures"), list[Item]()
    for label, count in enumerate((10, 5, 2, 1, 4)):
        for _ in range(count):
            items.append(Item(folder / f"{len(items)}.png", label))
            _picture(len(items)).save(str(items[-1].path))
    return Dataset("pictures", tuple("abcde"), tuple(items))


def _counts(items: tuple[Item, ...]) -> list[int]:
    return [sum(item.label == label for item in items) for label in range(5)]


@pytest.mark.parametrize(("fraction", "expected"), [(0.2, [2, 1, 1, 0, 1]), (0.9, [9, 4, 1, 0, 3])])
def test_a_part_of_each_class_is_held_out(
    pictures: Dataset, fraction: float, expected: list[int]
) -> None:
    split = hold_out(pictures, fraction, seed=1)
    assert _counts(split.test) == expected
    assert sorted([*split.train, *split.test]) == sorted(pictures.train)
    assert hold_out(pictures, fraction, seed=1) == split
    assert hold_out(pictures, fraction, seed=2) != split


def test_copies_and_near_copies_stay_on_one_side(pictures: Dataset, tmp_path: Path) -> None:
    copies = list[list[Item]]()
    for item in pictures.train[:4]:
        image = Image.open(str(item.path))
        made = [tmp_path / f"{item.path.stem}{ending}" for ending in (".jpg", ".bmp", "-2.png")]  # type: ignore[union-attr]
        image.save(made[0], quality=40)
        image.resize((80, 60)).save(made[1])
        image.point([min(255, int(1.1 * tone)) for tone in range(256)] * 3).save(made[2])
        copies.append([item, *(Item(path, 0) for path in made)])
    both = (pictures.train[17], Item(pictures.train[17].path, 4))  # one image in two classes
    items = (*pictures.train, *(item for group in copies for item in group[1:]), both[1])
    for seed in range(5):
        split = hold_out(Dataset("copies", pictures.class_names, items), 0.3, seed)
        for group in copies:
            assert len({item in split.test for item in group}) == 1
        assert not {*both} & {*split.test}
        assert 1 <= _counts(split.test)[0] <= 7
        # Of a class of nothing but copies, all are left.
        only = Dataset("one", ("a", "b"), (*copies[0], *(Item(i.path, 1) for i in copies[1])))
        assert hold_out(only, 0.5, seed).test == ()
