"""The datasets of a bench: what names, paths and `all` stand for, and each as runs use it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from ipl.bench.arms import ZERO_SHOT
from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.plan import Plan
from ipl.bench.protocols.protocol import Task
from ipl.bench.records import read_record, read_records, record_path
from ipl.bench.run import Run
from ipl.datasets.benchmark_readers import is_domain_name, read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.completeness import check_files, missing_files
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.support.cache import cache_folder
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import similar_path

ALL, SCENES = "all", "scenes"
NAME_LENGTH = 60  # of a dataset of the user's own: names of files begin with it


def find_datasets(plan: Plan, root: Path | None) -> tuple[Plan, tuple[str, ...], dict[str, str]]:
    """The plan with names of datasets in place of paths and `all`, notes, and the paths by name.

    A folder or file that is named is a dataset of the user's own and is called like it; `all`
    stands for every published dataset below `root` whose test images and shots exist. The notes
    say what was left out of it.
    """
    if root is not None and not os.path.isdir(root):
        raise ConfigError(f"data is {str(root)!r}; there is no such folder.")
    paths: dict[str, str] = {}
    plan = replace(
        plan,
        source=None if plan.source is None else _find(plan.source, root, paths),
        datasets=tuple(dict.fromkeys(_find(entry, root, paths) for entry in plan.datasets)),
    )
    if root is None:
        for name in filter(None, [*plan.datasets, plan.source]):
            if name not in (*paths, SCENES):
                what = "the published datasets" if name == ALL else name
                raise ConfigError(
                    f"data is missing; it must be the folder that contains {what}, given with "
                    "--data. Your own folders of images need none: --datasets PATH."
                )
    if root is None or ALL not in plan.datasets:
        return plan, (), paths
    names = [name for name in plan.datasets if name != ALL]
    left_out = []
    for name in plan.rules.candidates(plan.source, root):
        if name in names:
            continue
        try:
            _check_complete(plan, read_benchmark(name, root))
            names.append(name)
        except DataError as error:
            left_out.append(str(error))
    if not names:
        first = f" The first: {left_out[0]}" if left_out else ""
        raise DataError(
            f"datasets is {ALL}, but {root} has no dataset whose test images and shots exist."
            f"{first}"
        )
    notes = tuple(f"{error} It is left out." for error in left_out)
    return replace(plan, datasets=tuple(names)), notes, paths


def _find(entry: str, root: Path | None, paths: dict[str, str]) -> str:
    """The name of a plan's entry; if it is a path, that is added to the paths."""
    if entry in (*BENCHMARKS, SCENES, ALL):
        return entry
    path = Path(os.path.abspath(os.path.expanduser(entry)))
    is_domain = root is not None and is_domain_name(entry)
    if not entry or not os.path.exists(path):
        if is_domain:
            return entry  # `check_data` says what is missing
        hint = similar_path(Path(entry))
        if not hint and "/" not in entry:
            hint = did_you_mean(entry, [*BENCHMARKS, SCENES])
        raise ConfigError(
            f"There is no dataset {entry!r}, nor a folder or CSV file of that name; a domain below "
            f"the folder of the datasets is named pacs/photo.{hint}"
        )
    if root is not None and is_domain and os.path.isdir(root / entry):
        return entry
    name = name_of(path)
    if name in (*BENCHMARKS, SCENES, ALL, AVERAGE):
        raise ConfigError(
            f"{path} would be called {name!r}, which is another dataset's name or a word of the "
            "tables; rename it."
        )
    if paths.setdefault(name, str(path)) != str(path):
        raise ConfigError(f"{paths[name]} and {path} are both called {name!r}; rename one of them.")
    return name


def name_of(path: Path) -> str:
    """What the data at a path is called, which files can begin with."""
    name = path.name if os.path.isdir(path) else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:NAME_LENGTH] or "data"


def check_data(runs: Iterable[Run], root: Path | None, paths: Mapping[str, str], out: Path) -> None:
    """Raises what is wrong with the data of runs without a result; no image is opened."""
    open_runs = [run for run in runs if not _is_done(run, out)]
    names = dict.fromkeys(name for run in open_runs for name in (run.dataset, *run.targets))
    data = {name: BenchData.read(name, str(root or ""), paths.get(name)) for name in names}
    for name in (name for name in names if name in paths):
        check_files(f"{name} (training)", data[name].dataset.train)
    tasks = {(run.dataset, run.shots, run.seed, run.arm == ZERO_SHOT): run for run in open_runs}
    for run in tasks.values():
        task = task_of(run, data)
        for name, test in task.tests.items():
            if (name if name in run.targets else run.dataset) in paths:
                _check_classes(test, run.shots)
        if run.arm != ZERO_SHOT:
            _check_shots(run.dataset, run.shots, run.seed, task.training.train)
    own = {name: data.get(name) or BenchData.read(name, "", path) for name, path in paths.items()}
    if own:
        _check_unchanged(own, out)


def task_of(run: Run, data: Mapping[str, BenchData]) -> Task:
    """What a run trains on and is tested on."""
    targets = {name: data[name].dataset for name in run.targets}
    return run.rules.task(data[run.dataset].dataset, targets, run.shots, run.seed)


def _is_done(run: Run, out: Path) -> bool:
    """Whether a run has a result."""
    with suppress(DataError):  # a damaged record is written anew
        record = read_record(record_path(out, run.id))
        return record is not None and record.done
    return False


def _check_classes(test: Dataset, shots: int) -> None:
    """Raises DataError unless every class has an image to test on."""
    tested = {item.label for item in test.test}
    for label, class_name in enumerate(test.class_names):
        if label not in tested:
            raise DataError(
                f"{test.name}: with {several(shots, 'shot')}, no image of the class {class_name!r} "
                "is left to test on; give fewer (--shots), or add images."
            )


def _check_unchanged(own: Mapping[str, BenchData], out: Path) -> None:
    """Raises DataError if there are records of other data with the name of one of these."""
    records = []
    with suppress(DataError):  # there are none yet
        records = read_records([out])[0]
    for record in records:
        hashes: dict[str, str | None] = {**record.data.get("target_sha256", {})}
        hashes[record.dataset] = record.data.get("split_sha256")
        for name, data in own.items():
            if hashes.get(name) not in (None, data.sha256):
                raise DataError(
                    f"The records in {out} are of other images called {name!r}, or images were "
                    "added or removed since; use another folder for the records (--out)."
                )


def _check_complete(plan: Plan, dataset: Dataset) -> None:
    """Raises DataError unless every image exists that the plan would read."""
    check_files(f"{dataset.name} (test)", dataset.test)
    if not plan.rules.has_source and {*plan.arms} != {ZERO_SHOT}:  # it is trained on, too
        for shots, seed in product(plan.shots, plan.seeds):
            _check_shots(dataset.name, shots, seed, sample_shots(dataset.train, shots, seed))


def _check_shots(name: str, shots: int, seed: int, drawn: Sequence[Item]) -> None:
    check_files(f"{name} (training, {several(shots, 'shot')}, seed {seed})", drawn)


@dataclass(frozen=True)
class BenchData:
    """A dataset without the test images that are missing, and how many those are."""

    dataset: Dataset
    missing: tuple[Item, ...]  # of the test part
    sha256: str  # of the published list, whatever of it is missing
    root: str  # what hashes leave out of paths

    @classmethod
    def read(cls, name: str, root: str, path: str | None = None) -> BenchData:
        """The dataset of that name below a folder, or the user's own at a path."""
        if path is None:
            dataset = read_benchmark(name, root)
        else:
            dataset = replace(read_dataset(path), name=name)
            root = path if os.path.isdir(path) else str(Path(path).parent)
        absent = set(missing_files(dataset.test))
        if dataset.test and len(absent) == len({item.path for item in dataset.test}):
            first = dataset.test[0].path  # without a test part, training images would be tested
            raise DataError(f"{name}: all its test images are missing, first: {first}.")
        return cls(
            replace(dataset, test=tuple(item for item in dataset.test if item.path not in absent)),
            tuple(item for item in dataset.test if item.path in absent),
            items_sha256((*dataset.train, *dataset.test), root),
            root,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What its reader skipped, and a sentence on the test images that are missing."""
        if not self.missing:
            return self.dataset.notes
        listed = len(self.dataset.test) + len(self.missing)
        return (
            *self.dataset.notes,
            f"{self.dataset.name}: {len(self.missing):,} of {listed:,} test images are missing, "
            f"first: {self.missing[0].path}; accuracies are over the rest.",
        )


def items_sha256(items: Iterable[Item], root: str) -> str:
    """The SHA-256 of the paths below `root` and the labels, in their order.

    The drawn scenes are in the folder of the cache.
    """
    digest = hashlib.sha256()
    starts = [str(folder).rstrip("/") + "/" for folder in (Path(root), cache_folder())]
    for path, label in items:
        name = str(path).replace("\\", "/")
        for start in starts:
            name = name.removeprefix(start)
        digest.update(f"{name}\t{label}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
