"""A dataset as runs use it: what it lists, what of that is there, and a hash of the list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.check import missing_files
from ipl.datasets.dataset import Dataset, Item
from ipl.support.cache import cache_folder


@dataclass(frozen=True)
class BenchData:
    """A dataset whose test part has no missing image any more, and how many were left out."""

    dataset: Dataset
    listed: int  # test images, there or not
    missing: tuple[Item, ...]  # of the test part
    sha256: str  # of the published list, whatever of it is there

    @classmethod
    def read(cls, name: str, root: str) -> BenchData:
        """Returns the dataset of that name below a folder."""
        dataset = read_benchmark(name, root)
        gone = set(missing_files(dataset.test))
        return cls(
            replace(dataset, test=tuple(item for item in dataset.test if item.path not in gone)),
            len(dataset.test),
            tuple(item for item in dataset.test if item.path in gone),
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

    Drawn scenes lie below the cache's folder.
    """
    digest = hashlib.sha256()
    starts = [str(folder).rstrip("/") + "/" for folder in (Path(root), cache_folder())]
    for path, label in items:
        name = str(path).replace("\\", "/")
        for start in starts:
            name = name.removeprefix(start)
        digest.update(f"{name}\t{label}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
