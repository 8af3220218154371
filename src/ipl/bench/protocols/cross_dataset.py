"""Cross-dataset: train on all classes of a source, test on it and on other datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ipl.bench import paper_numbers as paper
from ipl.bench.protocols.protocol import Protocol, Task, Values, check_task, train_on_all_classes
from ipl.datasets.dataset import Dataset


class CrossDataset(Protocol):
    """Trains on a source; measures the accuracy on it and on targets with their own classes."""

    name = "cross-dataset"
    title = "Cross-dataset, trained on {}"
    default_source = "imagenet"
    recipe_protocol = "cross-dataset"
    targets: ClassVar[tuple[str, ...]] = paper.TARGETS  # that the paper averages over

    def task(self, dataset: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int) -> Task:
        """Shots of all classes of the source, and the source and every target to test on.

        Without a test part, all images of a target are tested, and those of the source not drawn.
        """
        for name, target in targets.items():
            self.check_target(dataset, name, target)
        training, source = train_on_all_classes(dataset, shots, seed)
        tests = {
            name: target if target.test else replace(target, test=target.train)
            for name, target in targets.items()
        }
        return check_task(Task(training, {source.name: source, **tests}))

    def check_target(self, source: Dataset, name: str, target: Dataset) -> None:
        """Raises DataError if a target cannot be tested with prompts of the source: any can."""

    def paper_table(self) -> Mapping[paper.Row, Mapping[str, Values]]:
        return paper.cross_dataset()

    def paper_datasets(self, source: str | None) -> tuple[str, ...]:
        """The paper's targets, if the source is the paper's."""
        return self.targets if source == paper.SOURCE else ()
