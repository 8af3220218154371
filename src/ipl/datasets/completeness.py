"""Whether published datasets are complete on disk, and what is missing of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS, DOMAINS, Benchmark
from ipl.datasets.dataset import Item
from ipl.display.formatting import first_few
from ipl.support.errors import ConfigError, DataError, did_you_mean

FOUND, INCOMPLETE, MISSING = "found", "incomplete", "missing"


@dataclass(frozen=True)
class DatasetState:
    """The state of one dataset on disk, next to what was published."""

    name: str
    folder: str
    classes: int
    test_images: int
    home: str
    state: str  # found, incomplete or missing
    problems: Sequence[str]  # one clause each


def check_root(root: str | Path, names: Sequence[str] = ()) -> list[DatasetState]:
    """Which datasets are complete below a folder: those that are named, or all known ones.

    Folders are listed and split files read; no image is opened. Validation images are never used,
    so they are not required.
    """
    known = [*BENCHMARKS, *DOMAINS]
    for name in names:
        if name not in known:
            raise ConfigError(f"There is no dataset {name!r}.{did_you_mean(name, known)}")
    if not os.path.isdir(Path(root)):
        raise DataError(
            f"No such folder: {root}; it should contain the folders of published datasets."
        )
    return [_check(Path(root), name) for name in dict.fromkeys(names or known)]


def has_published(root: Path) -> bool:
    published = {each.folder for each in (BENCHMARKS | DOMAINS).values()}
    return os.path.isdir(root) and any(p.name in published and p.is_dir() for p in root.iterdir())


def _check(root: Path, name: str) -> DatasetState:
    published = (BENCHMARKS | DOMAINS)[name]
    folder = root / published.folder
    if not os.path.isdir(folder):
        state, problems = MISSING, ["no such folder"]
    else:
        problems = _problems(published, root, folder)
        state = INCOMPLETE if problems else FOUND
    sizes = published.classes, published.test_images
    return DatasetState(name, str(folder), *sizes, published.home, state, problems)


def _problems(published: Benchmark, root: Path, folder: Path) -> list[str]:
    """How a dataset differs from what was published."""
    try:
        dataset = read_benchmark(published.name, root)
    except (DataError, OSError) as error:
        return [str(error).rstrip(".")]
    every = (*dataset.train, *dataset.test)
    tested = every if published.layout == "domain" else dataset.test
    problems = []
    for what, found, expected in (
        ("classes", len(dataset.class_names), published.classes),
        ("test images", len(tested), published.test_images),
    ):
        if found != expected:
            problems.append(f"{found:,} {what} instead of {expected:,}")
    if published.has_lists and (missing := missing_files(every)):  # else folders are the only list
        names = [str(p.relative_to(folder) if p.is_relative_to(folder) else p) for p in missing]
        shares = f"{len(missing):,} of {len(every):,}"
        problems.append(f"{shares} images are missing: {first_few(names)}")
    return problems


def missing_files(items: Iterable[Item]) -> list[Path]:
    """The images that are not on disk, in the order of the items.

    Each folder is listed once; no image is opened.
    """
    listings: dict[Path, frozenset[str]] = {}
    missing = []
    for path, _ in items:
        if not isinstance(path, Path):  # inside another library's dataset
            continue
        if path.parent not in listings:
            try:
                listings[path.parent] = frozenset(os.listdir(path.parent))
            except OSError:
                listings[path.parent] = frozenset()
        if path.name not in listings[path.parent]:
            missing.append(path)
    return missing


def check_files(name: str, items: Sequence[Item]) -> None:
    if missing := missing_files(items):
        raise DataError(
            f"{name}: {len(missing):,} of {len(items):,} images are missing, first: {missing[0]}."
        )
