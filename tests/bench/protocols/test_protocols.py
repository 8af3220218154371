"""What each protocol trains on, tests and measures, and its row of the paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ipl.bench import protocols
from ipl.bench.plan import Plan
from ipl.bench.protocols.base_to_novel import BaseToNovel
from ipl.bench.protocols.cross_dataset import CrossDataset
from ipl.bench.protocols.domain import DomainGeneralization
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.metrics import harmonic_mean
from ipl.support.errors import ConfigError, DataError


def listed(name: str, classes: tuple[str, ...], train: int, test: int) -> Dataset:
    def items(part: str, count: int) -> tuple[Item, ...]:
        return tuple(
            Item(Path(name, part, c, str(n)), label)
            for label, c in enumerate(classes)
            for n in range(count)
        )

    return Dataset(name, classes, items("train", train), items("test", test))


LETTERS = listed("letters", ("a", "b", "c", "d", "e"), 6, 2)


# -- what is trained on and tested ----------------------------------------------------------------


def test_base_shots_are_those_of_all_classes_without_the_novel_ones() -> None:
    task = BaseToNovel().task(LETTERS, {}, 3, seed=2)
    drawn = [item for item in sample_shots(LETTERS.train, 3, 2) if item.label < 3]
    assert task.training.train == tuple(drawn)
    assert task.training.test == ()
    assert list(task.tests) == ["base", "novel"]
    assert (task.tests["base"], task.tests["novel"]) == split_base_novel(LETTERS)


def test_without_a_test_part_the_rest_of_base_and_all_of_novel_are_tested() -> None:
    bare = replace(LETTERS, test=())
    task = BaseToNovel().task(bare, {}, 4, seed=2)
    assert task.training == BaseToNovel().task(LETTERS, {}, 4, seed=2).training
    drawn = {item.path for item in sample_shots(bare.train, 4, 2)}
    rest = [item for item in bare.train if item.label < 3 and item.path not in drawn]
    assert len(rest) == 3 * 2
    assert task.tests["base"].test == tuple(rest)
    novel = [Item(item.path, item.label - 3) for item in bare.train if item.label >= 3]
    assert task.tests["novel"].test == tuple(novel)


def test_across_datasets_all_classes_are_trained_on_and_each_target_keeps_its_own() -> None:
    digits = listed("digits", ("one", "two"), 1, 3)
    task = CrossDataset().task(LETTERS, {"digits": digits}, 3, seed=1)
    assert task.training.train == sample_shots(LETTERS.train, 3, 1)
    assert task.training.class_names == LETTERS.class_names
    assert task.tests == {"letters": LETTERS, "digits": digits}


def test_without_a_test_part_targets_are_tested_whole_and_the_source_on_the_rest() -> None:
    source = replace(LETTERS, test=())
    other = replace(LETTERS, name="other", test=())
    task = DomainGeneralization().task(source, {"other": other}, 2, seed=1)
    assert task.tests["other"].test == other.train
    trained, tested = set(task.training.train), set(task.tests["letters"].test)
    assert not trained & tested
    assert trained | tested == set(source.train)


def test_domains_have_the_same_classes_in_any_order() -> None:
    domain = DomainGeneralization()
    turned = listed("turned", LETTERS.class_names[::-1], 1, 1)
    assert domain.task(LETTERS, {"turned": turned}, 1, 1).tests["turned"] == turned
    for target, message in (
        (listed("more", (*LETTERS.class_names, "f"), 1, 1), "more has the class 'f'"),
        (listed("less", LETTERS.class_names[:4], 1, 1), "less has no class 'e'"),
    ):
        with pytest.raises(DataError, match=message):
            domain.task(LETTERS, {target.name: target}, 1, 1)
        CrossDataset().task(LETTERS, {target.name: target}, 1, 1)


def test_two_variants_are_tested_over_their_own_classes() -> None:
    few = listed("imagenet_a", LETTERS.class_names[1:3], 0, 4)
    task = DomainGeneralization().task(LETTERS, {"imagenet_a": few}, 1, 1)
    assert task.tests["imagenet_a"].class_names == ("b", "c")


# -- what is measured -----------------------------------------------------------------------------


def test_base_to_novel_measures_both_halves_of_its_own_dataset() -> None:
    protocol, accuracy = BaseToNovel(), {"base": 0.8249, "novel": 0.70}
    results = protocol.results("dtd", accuracy, "dtd")
    assert results is not None
    assert results["hm"] == pytest.approx(75.73, abs=0.01)  # the paper's CoOp + IPL
    assert protocol.results("dtd", accuracy, "eurosat") is None
    assert protocol.results("dtd", {}, "dtd") is None
    other = {"base": 50.0, "novel": 20.0, "hm": 0.0}
    mean = protocol.average([results, other])
    assert mean["hm"] == harmonic_mean(mean["base"], mean["novel"])  # not the mean of two HM
    # a linear probe knows the base classes alone
    assert protocol.results("dtd", {"base": 0.8}, "dtd") == {"base": 80.0}
    assert protocol.average([{"base": 80.0}, {"base": 60.0}]) == {"base": 70.0}
    assert protocol.scores({"base": 0.8}) == {"base": 0.8}
    assert list(protocol.scores(accuracy)) == ["base", "novel", "HM"]


def test_protocols_of_installed_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halves(BaseToNovel):
        name = "halves"

    plugins = [SimpleNamespace(name="halves", load=lambda: Halves)]
    monkeypatch.setattr(protocols, "entry_points", lambda group: plugins)
    protocols.known_protocols.cache_clear()
    assert isinstance(protocols.find_protocol("halves"), Halves)
    assert list(protocols.known_protocols())[-1] == "halves"
    plan = Plan.from_values({"protocol": "halves", "datasets": "dtd", "words": 0, "seeds": 1})
    assert {run.rules.name for run in plan.runs()} == {"halves"}
    with pytest.raises(ConfigError, match="halves"):
        protocols.find_protocol("thirds")
    protocols.known_protocols.cache_clear()
