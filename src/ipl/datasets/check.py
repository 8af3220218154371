"""What of the published datasets is on a disk, and what is missing, by name and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS, DomainSet
from ipl.datasets.dataset import Dataset
from ipl.datasets.domains import check_same_classes, read_domain
from ipl.datasets.presence import missing_files
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import is_folder

FOUND, INCOMPLETE, MISSING = "found", "incomplete", "missing"
SHOWN = 3  # missing images that are named


@dataclass(frozen=True)
class SetState:
    """One dataset as it is found below a root, beside what was published."""

    name: str
    folder: str
    state: str  # found, incomplete or missing
    problems: tuple[str, ...]  # a clause each
    classes: int | None
    classes_published: int
    test_images: int | None
    test_images_published: int
    train_images: int | None
    missing_images: dict[str, int]  # by part
    home: str

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {**asdict(self), "problems": list(self.problems)}


def check_root(root: str | Path, names: Sequence[str] = ()) -> list[SetState]:
    """Returns the state of these datasets below a root, or of all that are known.

    Folders are listed and split files read; no image is opened. Validation images are not
    used, so they are not looked for.
    """
    known = [*BENCHMARKS, *DOMAIN_SETS]
    names = [name.partition("/")[0] if "/" in name else name for name in names]  # of a domain
    for name in names:
        if name not in known:
            raise ConfigError(f"There is no dataset {name!r}.{did_you_mean(name, known)}")
    if not is_folder(Path(root)):
        raise DataError(f"No such folder: {root}; it should hold the folders of the datasets.")
    return [_check(Path(root), name) for name in dict.fromkeys(names or known)]


def _check(root: Path, name: str) -> SetState:
    group = DOMAIN_SETS.get(name)
    folder = root / (name if group else BENCHMARKS[name].folder)
    if not is_folder(folder):
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
    problems = [f"{n:,} {what}, published are {p:,}" for what, n, p in counts if n != p]
    missing = {"train": 0, "test": 0}
    if benchmark.has_lists:  # else the images are those that were found
        missing = _missing(folder, dataset, problems)
    return _state(name, folder, INCOMPLETE if problems else FOUND, problems, [dataset], missing)


def _check_domains(root: Path, folder: Path, group: DomainSet) -> SetState:
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
            problems.append(f"{count:,} images of {domain}, published are {published:,}")
        for part, number in _missing(folder, dataset, problems).items():
            missing[part] += number
    if domains and len(domains[0].class_names) != group.classes:
        problems.append(f"{len(domains[0].class_names)} classes, published are {group.classes}")
    return _state(group.name, folder, INCOMPLETE if problems else FOUND, problems, domains, missing)


def _missing(folder: Path, dataset: Dataset, problems: list[str]) -> dict[str, int]:
    """Returns how many images of each part are missing, and adds a clause on each."""
    found = {}
    for part, items in (("train", dataset.train), ("test", dataset.test)):
        missing = missing_files(items)
        found[part] = len(missing)
        if missing:
            named = [str(p.relative_to(folder) if p.is_relative_to(folder) else p) for p in missing]
            first = ", ".join(named[:SHOWN]) + (", ..." if len(named) > SHOWN else "")
            what = {"train": "training", "test": "test"}[part]
            problems.append(f"{len(named):,} of {len(items):,} {what} images are missing: {first}")
    return found


def _state(
    name: str,
    folder: Path,
    state: str,
    problems: Sequence[str],
    read: Sequence[Dataset] = (),
    missing: dict[str, int] | None = None,
) -> SetState:
    if name in DOMAIN_SETS:
        group = DOMAIN_SETS[name]
        classes, tested = group.classes, sum(group.images.values())
        home = group.home
    else:
        classes, tested = BENCHMARKS[name].classes, BENCHMARKS[name].test_images
        home = BENCHMARKS[name].home
    return SetState(
        name=name,
        folder=str(folder),
        state=state,
        problems=tuple(problems),
        classes=len(read[0].class_names) if read else None,
        classes_published=classes,
        test_images=_tested(name, read),
        test_images_published=tested,
        train_images=sum(len(d.train) for d in read) if read else None,
        missing_images=missing or {},
        home=home,
    )


def _tested(name: str, read: Sequence[Dataset]) -> int | None:
    if not read:
        return None
    # Of domains all images count: which are for testing is not published.
    return sum(len(d.test) + (len(d.train) if name in DOMAIN_SETS else 0) for d in read)
