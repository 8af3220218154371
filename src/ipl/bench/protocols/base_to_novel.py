"""Base-to-novel: train on half of the classes, test on both halves, each a closed set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from ipl.bench import paper_numbers as paper
from ipl.bench.protocols.protocol import Protocol, Task, Values, check_task, hold_out_rest
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.metrics import harmonic_mean

BASE, NOVEL = "base", "novel"


class BaseToNovel(Protocol):
    """Trains on the base classes of each dataset; measures base and novel accuracy and their HM."""

    name = "base-to-novel"
    title = "Base-to-novel"
    parts = (BASE, NOVEL)
    measures: ClassVar[Mapping[str, str]] = MappingProxyType(
        {BASE: "base", NOVEL: "novel", "hm": "HM"}
    )

    def task(self, dataset: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int) -> Task:
        """The shots of the base classes, and both halves to test on.

        Without a test part, the base images that were not drawn are tested, and all novel images:
        nothing is trained on those.
        """
        del targets
        base, novel = split_base_novel(dataset)
        training = replace(base_shots(dataset, shots, seed), test=())
        if not dataset.test:
            base = hold_out_rest(base, training.train, shots)
            novel = hold_out_rest(novel, (), shots)
        return check_task(Task(training, {BASE: base, NOVEL: novel}))

    def results(
        self, trained_on: str, accuracy: Mapping[str, float], dataset: str
    ) -> Values | None:
        if dataset != trained_on or not accuracy:
            return None
        return {name: 100 * value for name, value in _with_hm(accuracy).items()}

    def average(self, results: Sequence[Values]) -> Values:
        """The means over datasets; HM is that of the mean base and novel accuracy."""
        return _with_hm(super().average(results))

    def scores(self, accuracy: Mapping[str, float]) -> dict[str, float]:
        return {self.measures[name]: value for name, value in _with_hm(accuracy).items()}

    def paper_table(self) -> Mapping[paper.Row, Mapping[str, Values]]:
        return paper.base_to_novel()

    def paper_datasets(self, source: str | None) -> tuple[str, ...]:
        del source
        return paper.ELEVEN


def base_shots(dataset: Dataset, shots: int, seed: int) -> Dataset:
    """The base half with the shots of a seed as its train part.

    Shots are drawn over all classes, then the novel ones are left out, as published.
    """
    drawn = sample_shots(dataset.train, shots, seed)
    return split_base_novel(replace(dataset, train=drawn))[0]


def _with_hm(accuracy: Mapping[str, float]) -> Values:
    """Base and novel accuracy and their HM; the base alone if there is no other."""
    if NOVEL not in accuracy:  # a linear probe knows only the classes that it was trained on
        return {BASE: accuracy[BASE]}
    base, novel = accuracy[BASE], accuracy[NOVEL]
    return {BASE: base, NOVEL: novel, "hm": harmonic_mean(base, novel)}
