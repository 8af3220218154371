"""Few-shot over all classes: train on N images per class, test on all of them."""

from __future__ import annotations

from collections.abc import Mapping

from ipl.bench.protocols.protocol import Protocol, Task, check_task, train_on_all_classes
from ipl.datasets.dataset import Dataset


class FewShot(Protocol):
    """Trains on all classes of each dataset with 1, 2, 4, 8 and 16 shots; measures accuracy."""

    name = "few-shot"
    title = "Few-shot over all classes"
    default_shots = (1, 2, 4, 8, 16)

    def task(self, dataset: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int) -> Task:
        del targets
        training, test = train_on_all_classes(dataset, shots, seed)
        return check_task(Task(training, {dataset.name: test}))
