"""Whether published datasets are complete on disk, and what is missing of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ipl.datasets.benchmark_readers import check_same_classes, read_benchmark, read_domain
from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS, DomainSet
from ipl.datasets.dataset import Dataset, Item, examples
from ipl.support.errors import ConfigError, DataError, did_you_mean

FOUND, INCOMPLETE, MISSING = "found", "incomplete", "missing"


@dataclass(frozen=True)
class DatasetState:
    """The state of one dataset on disk, next to what was published."""

    name: str
    folder: str
    state: str  # found, incomplete or missing
    problems: tuple[str, ...]  # one clause each
    classes: int | None
    classes_published: int
    test_images: int | None
    test_images_published: int
    train_images: int | None
    missing_images: dict[str, int]  # by part
    home: str

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON values."""
        return {**asdict(self), "problems": list(self.problems)}


def check_root(root: str | Path, names: Sequence[str] = ()) -> list[DatasetState]:
    """Check which datasets are complete below a folder.

    Folders are listed and split files read; no image is opened. Validation images are never used,
    so they are not required.

    Parameters
    ----------
    root : str or Path
        The folder that contains the folders of the datasets.
    names : sequence of str, default=()
        Names of datasets or domains; by default all that are known.

    Returns
    -------
    list of DatasetState
        One state per dataset.

    Raises
    ------
    ConfigError
        If a name is unknown.
    DataError
        If there is no such folder.
    """
    known = [*BENCHMARKS, *DOMAIN_SETS]
    names = [name.partition("/")[0] for name in names]  # a domain stands for its dataset
    for name in names:
        if name not in known:
            raise ConfigError(f"There is no dataset {name!r}.{did_you_mean(name, known)}")
    if not os.path.isdir(Path(root)):
        raise DataError(
            f"No such folder: {root}; it should contain the folders of published datasets."
        )
    return [_check(Path(root), name) for name in dict.fromkeys(names or known)]


def has_published(root: Path) -> bool:
    """Returns whether a folder has a published dataset's folder."""
    published = {*(benchmark.folder for benchmark in BENCHMARKS.values()), *DOMAIN_SETS}
    return os.path.isdir(root) and any(p.name in published and p.is_dir() for p in root.iterdir())


def _check(root: Path, name: str) -> DatasetState:
    group = DOMAIN_SETS.get(name)
    folder = root / (name if group else BENCHMARKS[name].folder)
    if not os.path.isdir(folder):
        return _state(name, folder, MISSING, ["no such folder"])
    if group:
        return _check_domains(root, folder, group)
    benchmark = BENCHMARKS[name]
    try:
        dataset = read_benchmark(name, root)
    except DataError as error:
        return _state(name, folder, INCOMPLETE, [str(error).rstrip(".")])
    counts = [
        ("classes", len(dataset.class_names), benchmark.classes),
        ("test images", len(dataset.test), benchmark.test_images),
    ]
    problems = [f"{n:,} {what} instead of {p:,}" for what, n, p in counts if n != p]
    missing = {"train": 0, "test": 0}
    if benchmark.has_lists:  # otherwise the dataset is whatever the folders contain
        missing = _count_missing(folder, dataset, problems)
    return _state(name, folder, INCOMPLETE if problems else FOUND, problems, [dataset], missing)


def _check_domains(root: Path, folder: Path, group: DomainSet) -> DatasetState:
    problems: list[str] = []
    domains: list[Dataset] = []
    missing = {"train": 0, "test": 0}
    for domain, published in group.images.items():
        try:
            dataset = read_domain(root, f"{group.name}/{domain}")
            if domains:
                check_same_classes(domains[0], dataset)
        except DataError as error:
            problems.append(str(error).rstrip("."))
            continue
        domains.append(dataset)
        count = len(dataset.train) + len(dataset.test)
        if count != published:
            problems.append(f"{count:,} images of {domain} instead of {published:,}")
        for part, number in _count_missing(folder, dataset, problems).items():
            missing[part] += number
    if domains and len(domains[0].class_names) != group.classes:
        problems.append(f"{len(domains[0].class_names)} classes instead of {group.classes}")
    return _state(group.name, folder, INCOMPLETE if problems else FOUND, problems, domains, missing)


def _count_missing(folder: Path, dataset: Dataset, problems: list[str]) -> dict[str, int]:
    """Returns the number of missing images of each part, and appends to the problems."""
    counts = {}
    for part, items in (("train", dataset.train), ("test", dataset.test)):
        missing = missing_files(items)
        counts[part] = len(missing)
        if missing:
            names = [str(p.relative_to(folder) if p.is_relative_to(folder) else p) for p in missing]
            what = {"train": "training", "test": "test"}[part]
            count = f"{len(names):,} of {len(items):,}"
            problems.append(f"{count} {what} images are missing: {examples(names)}")
    return counts


def missing_files(items: Iterable[Item]) -> list[Path]:
    """Returns the images that are not on disk, in the order of the items.

    Each folder is listed once; no image is opened.
    """
    listings: dict[Path, frozenset[str]] = {}
    missing = []
    for path, _ in items:
        if not isinstance(path, Path):  # inside another library's dataset
            continue
        folder = path.parent
        if folder not in listings:
            listings[folder] = _list_names(folder)
        if path.name not in listings[folder]:
            missing.append(path)
    return missing


def check_files(name: str, items: Sequence[Item]) -> None:
    """Raises DataError with the number of missing images and the first of them."""
    missing = missing_files(items)
    if missing:
        raise DataError(
            f"{name}: {len(missing):,} of {len(items):,} images are missing, first: {missing[0]}."
        )


def _list_names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _state(
    name: str,
    folder: Path,
    state: str,
    problems: Sequence[str],
    datasets: Sequence[Dataset] = (),
    missing: dict[str, int] | None = None,
) -> DatasetState:
    if name in DOMAIN_SETS:
        group = DOMAIN_SETS[name]
        classes, test_images = group.classes, sum(group.images.values())
        home = group.home
    else:
        classes, test_images = BENCHMARKS[name].classes, BENCHMARKS[name].test_images
        home = BENCHMARKS[name].home
    return DatasetState(
        name=name,
        folder=str(folder),
        state=state,
        problems=tuple(problems),
        classes=len(datasets[0].class_names) if datasets else None,
        classes_published=classes,
        test_images=_count_test_images(name, datasets),
        test_images_published=test_images,
        train_images=sum(len(d.train) for d in datasets) if datasets else None,
        missing_images=missing or {},
        home=home,
    )


def _count_test_images(name: str, datasets: Sequence[Dataset]) -> int | None:
    if not datasets:
        return None
    # All images of a domain count: there is no published test part.
    return sum(len(d.test) + (len(d.train) if name in DOMAIN_SETS else 0) for d in datasets)
