"""What a protocol is: what it trains on, what it tests, what it measures, and the paper's row."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from ipl.bench import paper_numbers as paper
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.display.formatting import several
from ipl.support.errors import DataError

Values = dict[str, float]  # by measure, in %


@dataclass(frozen=True)
class Task:
    """What one run trains on and is tested on."""

    training: Dataset  # its train part holds the shots and nothing else, its test part is empty
    tests: Mapping[str, Dataset]  # by name; each is closed, with the classes of its own dataset


class Protocol(ABC):
    """How methods are compared. What is defined here is the accuracy on each tested dataset."""

    name: ClassVar[str]  # in plans, records and on the command line
    title: ClassVar[str]  # of its tables; {} stands for the source
    # The dataset that prompts are trained on unless a plan names another, to be tested on all
    # datasets of the plan. None if each dataset is trained on and tested by itself.
    default_source: ClassVar[str | None] = None
    # The names of the test sets if they are parts of the dataset that was trained on; empty if
    # test sets are datasets and have their names.
    parts: ClassVar[tuple[str, ...]] = ()
    # The measures of a run on a dataset, with the heading of each.
    measures: ClassVar[Mapping[str, str]] = MappingProxyType({"accuracy": "accuracy"})
    default_shots: ClassVar[tuple[int, ...]] = (16,)
    # Whose published numbers a learner trains with (`FitConfig.protocol`).
    recipe_protocol: ClassVar[str] = "base-to-novel"

    @property
    def has_source(self) -> bool:
        """Whether all runs train on one source."""
        return self.default_source is not None

    # -- data -----------------------------------------------------------------------------------

    @abstractmethod
    def task(self, dataset: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int) -> Task:
        """What a run on a dataset, or source, trains on and is tested on; `seed` draws the shots.

        `targets` are the other datasets to test on; there are none without a source.
        """

    def candidates(self, source: str | None, root: Path) -> list[str]:
        """The names that `all` may stand for, whether or not they are below `root`."""
        del root
        return [n for n, known in BENCHMARKS.items() if not known.is_variant and n != source]

    # -- measures -------------------------------------------------------------------------------

    def test_names(self, dataset: str) -> tuple[str, ...]:
        """The test sets that every finished run on a dataset has an accuracy for."""
        return self.parts or (dataset,)

    def results(
        self, trained_on: str, accuracy: Mapping[str, float], dataset: str
    ) -> Values | None:
        """The measures of a run on a dataset in %, None if it was not tested on it.

        `accuracy` is from 0 to 1 by test set, and empty if the run did not finish.
        """
        del trained_on
        return {"accuracy": 100 * accuracy[dataset]} if dataset in accuracy else None

    def average(self, results: Sequence[Values]) -> Values:
        """The mean of each measure over datasets, as the paper averages them."""
        return mean_values(results)

    def scores(self, accuracy: Mapping[str, float]) -> dict[str, float]:
        """What a line on a finished run shows, from 0 to 1, each with its heading."""
        return dict(accuracy)

    # -- the paper ------------------------------------------------------------------------------

    def paper_table(self) -> Mapping[paper.Row, Mapping[str, Values]]:
        """The paper's numbers by row and dataset, with the average."""
        return {}

    def paper_datasets(self, source: str | None) -> tuple[str, ...]:
        """The datasets that the paper averages over, none for a source that it lacks."""
        del source
        return ()


def mean_values(results: Sequence[Values]) -> Values:
    """The mean of each measure."""
    return {name: statistics.mean(values[name] for values in results) for name in results[0]}


def train_on_all_classes(dataset: Dataset, shots: int, seed: int) -> tuple[Dataset, Dataset]:
    """Shots of all classes to train on, and the dataset with its images to test on.

    Without a test part, the images that were not drawn are tested.
    """
    drawn = sample_shots(dataset.train, shots, seed)
    if not dataset.test:
        dataset = hold_out_rest(dataset, drawn, shots)
    return replace(dataset, train=drawn, test=()), dataset


def hold_out_rest(dataset: Dataset, drawn: Sequence[Item], shots: int) -> Dataset:
    """The dataset with the training images that were not drawn as its test part."""
    taken = set(drawn)
    rest = tuple(item for item in dataset.train if item not in taken)
    if dataset.train and not rest:
        raise DataError(
            f"{dataset.name}: with {several(shots, 'shot')} of each class, all "
            f"{len(dataset.train):,} images are drawn to train on and none is left to test on; "
            "give fewer (--shots), or add images."
        )
    return replace(dataset, test=rest)


def check_task(task: Task) -> Task:
    """The task; raises DataError if there is nothing to train on or to test."""
    for name, test in task.tests.items():
        if not test.test:
            raise DataError(f"{test.name} has no test images; {name!r} cannot be scored.")
    if not task.training.train:
        raise DataError(f"{task.training.name} has no training images to draw shots from.")
    return task
