"""What each protocol learns from and is tested on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipl.bench.tasks import base_to_novel_task, transfer_task
from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.support.errors import DataError


def listed(name: str, classes: tuple[str, ...], train: int, test: int) -> Dataset:
    def items(part: str, count: int) -> tuple[Item, ...]:
        return tuple(
            Item(Path(name, part, c, str(n)), label)
            for label, c in enumerate(classes)
            for n in range(count)
        )

    return Dataset(name, classes, items("train", train), items("test", test))


LETTERS = listed("letters", ("a", "b", "c", "d", "e"), 6, 2)


def test_base_shots_are_those_of_all_classes_without_the_novel_ones() -> None:
    task = base_to_novel_task(LETTERS, 3, seed=2)
    drawn = [item for item in sample_shots(LETTERS.train, 3, 2) if item.label < 3]
    assert task.learn.train == tuple(drawn)
    assert task.learn.test == ()
    assert list(task.tests) == ["base", "novel"]
    assert (task.tests["base"], task.tests["novel"]) == split_base_novel(LETTERS)


def test_across_data_sets_all_classes_are_learnt_and_each_target_keeps_its_own() -> None:
    digits = listed("digits", ("one", "two"), 1, 3)
    task = transfer_task("cross-dataset", LETTERS, {"digits": digits}, 3, seed=1)
    assert task.learn.train == sample_shots(LETTERS.train, 3, 1)
    assert task.learn.class_names == LETTERS.class_names
    assert task.tests == {"letters": LETTERS, "digits": digits}


def test_without_a_test_part_targets_are_tested_whole_and_the_source_on_the_rest() -> None:
    source = replace(LETTERS, test=())
    other = replace(LETTERS, name="other", test=())
    task = transfer_task("domain", source, {"other": other}, 2, seed=1)
    assert task.tests["other"].test == other.train
    shown, tested = set(task.learn.train), set(task.tests["letters"].test)
    assert not shown & tested
    assert shown | tested == set(source.train)


def test_domains_have_the_same_classes_in_any_order() -> None:
    turned = listed("turned", LETTERS.class_names[::-1], 1, 1)
    assert transfer_task("domain", LETTERS, {"turned": turned}, 1, 1).tests["turned"] == turned
    for target, message in (
        (listed("more", (*LETTERS.class_names, "f"), 1, 1), "more has the class 'f'"),
        (listed("less", LETTERS.class_names[:4], 1, 1), "less has no class 'e'"),
    ):
        with pytest.raises(DataError, match=message):
            transfer_task("domain", LETTERS, {target.name: target}, 1, 1)
        transfer_task("cross-dataset", LETTERS, {target.name: target}, 1, 1)


def test_two_variants_are_tested_over_their_own_classes() -> None:
    few = listed("imagenet_a", LETTERS.class_names[1:3], 0, 4)
    task = transfer_task("domain", LETTERS, {"imagenet_a": few}, 1, 1)
    assert task.tests["imagenet_a"].class_names == ("b", "c")


def test_nothing_to_test_or_learn_from() -> None:
    with pytest.raises(DataError, match="no test images"):
        base_to_novel_task(replace(LETTERS, test=()), 1, 1)
    with pytest.raises(DataError, match="no training images"):
        base_to_novel_task(replace(LETTERS, train=()), 1, 1)


def test_pacs_without_a_split(root: Path) -> None:
    photo, night = (read_benchmark(f"pacs/{name}", root) for name in ("photo", "night"))
    with pytest.raises(DataError, match="pacs/night has no class 'forest'"):
        transfer_task("domain", photo, {"pacs/night": night}, 1, 1)
