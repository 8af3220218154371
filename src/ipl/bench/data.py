"""The datasets of a bench: what `all` stands for, and each dataset as runs use it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ipl.bench.plan import Plan
from ipl.datasets.benchmark_readers import check_benchmark_name, read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.check import check_files, missing_files
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.support.cache import cache_folder
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import is_folder

ALL = "all"


@dataclass(frozen=True)
class Discovery:
    """A plan for datasets that exist, and a sentence on each that was left out."""

    plan: Plan
    notes: tuple[str, ...] = ()


def find_datasets(plan: Plan, root: Path) -> Discovery:
    """Returns the plan with `all` replaced by every dataset that is complete below `root`.

    Raises
    ------
    ConfigError
        If `root` is not a folder, or a name is not that of a dataset.
    DataError
        If none of the datasets is complete.
    """
    if not is_folder(root):
        raise ConfigError(f"data is {str(root)!r}; there is no such folder.")
    names = [name for name in plan.datasets if name != ALL]
    for name in (*names, *filter(None, [plan.source])):
        check_benchmark_name(name)
    notes = []
    if plan.source in BENCHMARKS and not is_folder(root / BENCHMARKS[plan.source].folder):
        folder = BENCHMARKS[plan.source].folder
        notes.append(f"The source {plan.source} is missing: {root} has no folder {folder!r}.")
    if ALL not in plan.datasets:
        return Discovery(plan, tuple(notes))
    for name in plan.rules.candidates(plan.source, root):
        if name in names:
            continue
        try:
            _check_complete(plan, read_benchmark(name, root))
            names.append(name)
        except DataError as error:
            notes.append(f"{error} It is left out.")
    if not names:
        first = f": {notes[0]}" if notes else ", nor a folder of one."
        raise DataError(f"None of the datasets is complete in {root}{first}")
    return Discovery(replace(plan, datasets=tuple(names)), tuple(notes))


def _check_complete(plan: Plan, dataset: Dataset) -> None:
    """Raises DataError unless every image exists that the plan would read."""
    check_files(f"{dataset.name} (test)", dataset.test)
    if not plan.rules.has_source:  # it is trained on, too
        for seed in plan.seeds:
            check_files(
                f"{dataset.name} (training, seed {seed})",
                sample_shots(dataset.train, max(plan.shots), seed),
            )


@dataclass(frozen=True)
class BenchData:
    """A dataset without the test images that are missing, and how many those are."""

    dataset: Dataset
    listed: int  # test images, missing or not
    missing: tuple[Item, ...]  # of the test part
    sha256: str  # of the published list, whatever of it is missing

    @classmethod
    def read(cls, name: str, root: str) -> BenchData:
        """Returns the dataset of that name below a folder."""
        return cls.of(read_benchmark(name, root), root)

    @classmethod
    def of(cls, dataset: Dataset, root: str) -> BenchData:
        """Returns a dataset that has been read."""
        missing = set(missing_files(dataset.test))
        return cls(
            replace(dataset, test=tuple(item for item in dataset.test if item.path not in missing)),
            len(dataset.test),
            tuple(item for item in dataset.test if item.path in missing),
            items_sha256((*dataset.train, *dataset.test), root),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns a sentence on the test images that are missing, if any."""
        if not self.missing:
            return ()
        return (
            f"{self.dataset.name}: {len(self.missing):,} of {self.listed:,} test images are "
            f"missing, first: {self.missing[0].path}; accuracies are over the rest.",
        )


def items_sha256(items: Iterable[Item], root: str) -> str:
    """Returns the SHA-256 of the paths below `root` and the labels, in their order.

    Drawn scenes are in the folder of the cache.
    """
    digest = hashlib.sha256()
    starts = [str(folder).rstrip("/") + "/" for folder in (Path(root), cache_folder())]
    for path, label in items:
        name = str(path).replace("\\", "/")
        for start in starts:
            name = name.removeprefix(start)
        digest.update(f"{name}\t{label}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
