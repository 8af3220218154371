"""What a protocol is: what it trains on, what it tests, what it measures, and the paper's row."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from ipl.bench.tables import paper
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.display.formatting import several
from ipl.support.errors import DataError

Values = dict[str, float]  # by measure, in %


@dataclass(frozen=True)
class Task:
    """What one run trains on and is tested on.

    Parameters
    ----------
    training : Dataset
        A dataset whose train part holds the shots and nothing else, and whose test part is empty.
    tests : mapping
        The test sets by name; each is closed, with the classes of its own dataset.
    """

    training: Dataset
    tests: Mapping[str, Dataset]


class Protocol(ABC):
    """How methods are compared. What is defined here is the accuracy on each tested dataset.

    Attributes
    ----------
    name : str
        The name in plans, records and on the command line.
    title : str
        The title of its tables; `{}` stands for the source.
    default_source : str or None
        The dataset that prompts are trained on unless a plan names another, to be tested on all
        datasets of the plan. None if each dataset of the plan is trained on and tested by itself.
    parts : tuple of str
        The names of the test sets if they are parts of the dataset that was trained on; empty if
        test sets are datasets and have their names.
    measures : mapping
        The measures of a run on a dataset, with the heading of each.
    default_shots : tuple of int
        The numbers of training images per class that a plan runs unless it names others.
    recipe_protocol : str
        The protocol whose published numbers a learner trains with (`FitConfig.protocol`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    default_source: ClassVar[str | None] = None
    parts: ClassVar[tuple[str, ...]] = ()
    measures: ClassVar[Mapping[str, str]] = MappingProxyType({"accuracy": "accuracy"})
    default_shots: ClassVar[tuple[int, ...]] = (16,)
    recipe_protocol: ClassVar[str] = "base-to-novel"

    @property
    def has_source(self) -> bool:
        """Returns whether all runs train on one source."""
        return self.default_source is not None

    # -- data -----------------------------------------------------------------------------------

    @abstractmethod
    def task(self, dataset: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int) -> Task:
        """Returns what a run trains on and is tested on.

        Parameters
        ----------
        dataset : Dataset
            The dataset to train on: the source, if the protocol has one.
        targets : mapping
            The other datasets to test on, by name; empty if the protocol has no source.
        shots : int
            Training images per class.
        seed : int
            Draws the shots.
        """

    def candidates(self, source: str | None, root: Path) -> list[str]:
        """Returns the names that `all` may stand for, whether or not they are below `root`."""
        del root
        return [n for n, known in BENCHMARKS.items() if not known.is_variant and n != source]

    # -- measures -------------------------------------------------------------------------------

    def test_names(self, dataset: str) -> tuple[str, ...]:
        """Returns the test sets that every finished run on a dataset has an accuracy for."""
        return self.parts or (dataset,)

    def results(
        self, trained_on: str, accuracy: Mapping[str, float], dataset: str
    ) -> Values | None:
        """Returns the measures of a run on a dataset in %, None if it was not tested on it.

        Parameters
        ----------
        trained_on : str
            The dataset that the run was trained on.
        accuracy : mapping
            Accuracies from 0 to 1 by test set; empty if the run did not finish.
        dataset : str
            The dataset to look at.
        """
        del trained_on
        return {"accuracy": 100 * accuracy[dataset]} if dataset in accuracy else None

    def average(self, results: Sequence[Values]) -> Values:
        """Returns the mean of each measure over datasets, as the paper averages them."""
        return mean_values(results)

    def scores(self, accuracy: Mapping[str, float]) -> dict[str, float]:
        """Returns what a line on a finished run shows, from 0 to 1, each with its heading."""
        return dict(accuracy)

    # -- the paper ------------------------------------------------------------------------------

    def paper_average(self, learner: str, with_words: bool) -> Values | None:
        """Returns the paper's averages of a row in %, None if it has no such row."""
        return self.paper_results(learner, with_words, paper.AVERAGE)

    def paper_results(self, learner: str, with_words: bool, dataset: str) -> Values | None:
        """Returns the paper's numbers of a row on a dataset or the average; None if not known."""
        del learner, with_words, dataset
        return None

    def paper_datasets(self, source: str | None) -> tuple[str, ...]:
        """Returns the datasets that the paper averages over, none for a source that it lacks."""
        del source
        return ()

    def sizes(self, data: Mapping[str, Any], dataset: str) -> list[tuple[str, int | None, int]]:
        """Returns what is counted of a test set, its number in a record and the published one.

        Parameters
        ----------
        data : mapping
            The entry `data` of a record.
        dataset : str
            A published dataset.
        """
        classes, images = paper.SIZES[dataset]
        return [
            ("classes", recorded_count(data, "classes", dataset), classes),
            ("test images", recorded_count(data, "test_images", dataset), images),
        ]


def mean_values(results: Sequence[Values]) -> Values:
    """Returns the mean of each measure."""
    return {name: statistics.mean(values[name] for values in results) for name in results[0]}


def recorded_count(data: Mapping[str, Any], what: str, test: str) -> int | None:
    """Returns a number of a test set that a record holds, None if it holds none."""
    count: int | None = (data.get(what) or {}).get(test)
    return count


def train_on_all_classes(dataset: Dataset, shots: int, seed: int) -> tuple[Dataset, Dataset]:
    """Returns shots of all classes to train on, and the dataset with its images to test on.

    Without a test part, the images that were not drawn are tested.
    """
    drawn = sample_shots(dataset.train, shots, seed)
    if not dataset.test:
        dataset = hold_out_rest(dataset, drawn, shots)
    return replace(dataset, train=drawn, test=()), dataset


def hold_out_rest(dataset: Dataset, drawn: Sequence[Item], shots: int) -> Dataset:
    """Returns the dataset with the training images that were not drawn as its test part."""
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
    """Returns the task; raises DataError if there is nothing to train on or to test."""
    for name, test in task.tests.items():
        if not test.test:
            raise DataError(f"{test.name} has no test images; {name!r} cannot be scored.")
    if not task.training.train:
        raise DataError(f"{task.training.name} has no training images to draw shots from.")
    return task
