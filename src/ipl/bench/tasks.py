"""What each protocol learns from and is tested on: shots of some classes, and named test sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ipl.bench.plan import DOMAIN
from ipl.datasets.benchmark_readers import check_same_classes
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots, split_base_novel
from ipl.support.errors import DataError

# Variants that have fewer classes than the set they vary, and are tested over their own.
OWN_CLASSES = ("imagenet_a", "imagenet_r")


@dataclass(frozen=True)
class Task:
    """The shots, and what is tested under which name; each test set is closed, with its classes."""

    learn: Dataset  # its train part holds the shots and nothing else
    tests: Mapping[str, Dataset]


def base_shots(dataset: Dataset, shots: int, seed: int) -> Dataset:
    """Returns the base half with the shots of a seed as its train part.

    Shots are drawn over all classes, then the novel ones are left out, as published.
    """
    drawn = sample_shots(dataset.train, shots, seed)
    return split_base_novel(replace(dataset, train=drawn))[0]


def base_to_novel_task(dataset: Dataset, shots: int, seed: int) -> Task:
    """Returns the base shots, and both halves to test on."""
    base, novel = split_base_novel(dataset)
    learn = replace(base_shots(dataset, shots, seed), test=())
    return _checked(Task(learn, {"base": base, "novel": novel}))


def transfer_task(
    protocol: str, source: Dataset, targets: Mapping[str, Dataset], shots: int, seed: int
) -> Task:
    """Returns shots of all classes of the source, and the source and every target to test on.

    Without a test part, all images of a target are tested, and those of the source not drawn.
    """
    if protocol == DOMAIN:
        for name, target in targets.items():
            _check_classes(source, name, target)
    drawn = sample_shots(source.train, shots, seed)
    if not source.test:
        shown = set(drawn)
        source = replace(source, test=tuple(item for item in source.train if item not in shown))
    tests = {
        name: target if target.test else replace(target, test=target.train)
        for name, target in targets.items()
    }
    return _checked(Task(replace(source, train=drawn, test=()), {source.name: source, **tests}))


def _check_classes(source: Dataset, name: str, target: Dataset) -> None:
    """Raises DataError unless a domain has the classes of the source."""
    check_same_classes(source, target)
    other = set(target.class_names)
    lost = [name for name in source.class_names if name not in other]
    if lost and name not in OWN_CLASSES:
        raise DataError(
            f"{name} has no class {lost[0]!r}, which {source.name} has ({len(lost)} of "
            f"{len(source.class_names)} are missing): the two are no domains of the same classes."
        )


def _checked(task: Task) -> Task:
    for name, test in task.tests.items():
        if not test.test:
            raise DataError(f"{test.name} has no test images; {name!r} cannot be scored.")
    if not task.learn.train:
        raise DataError(f"{task.learn.name} has no training images to draw shots from.")
    return task
