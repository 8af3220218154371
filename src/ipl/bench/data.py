"""The datasets of a bench: what names, paths and `all` stand for, and each as runs use it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from ipl.bench.arms import ZERO_SHOT
from ipl.bench.plan import Plan
from ipl.bench.protocols.registry import find_protocol
from ipl.bench.records import read_record, read_records, record_path
from ipl.bench.run import Run
from ipl.bench.tables.cells import AVERAGE
from ipl.datasets.benchmark_readers import is_domain_name, read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.check import check_files, missing_files
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import listed, several
from ipl.support.cache import cache_folder
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import similar_path

ALL, SCENES = "all", "scenes"
USUAL_SHOTS = (1, 2, 4, 8, 16)  # that are tried where images of others are missing
NAME_LENGTH = 60  # of a dataset of the user's own: names of files begin with it


@dataclass(frozen=True)
class Discovery:
    """A plan with the names of datasets, a sentence on each that was left out, and own data."""

    plan: Plan
    notes: tuple[str, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)  # of the user's own datasets, by name


def find_datasets(plan: Plan, root: Path | None) -> Discovery:
    """Returns the plan with names of datasets in place of paths and of `all`.

    A folder or file that is named is a dataset of the user's own and is called like it; `all`
    stands for every published dataset below `root` whose test images and shots exist.

    Parameters
    ----------
    plan : Plan
        Names and paths.
    root : Path or None
        The folder that contains the published datasets; own data and `scenes` need none.

    Raises
    ------
    ConfigError
        If `root` is not a folder, an entry is neither a dataset nor a path, or its name is taken.
    DataError
        If `all` stands for none.
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
        return Discovery(plan, (), paths)
    if ALL not in plan.datasets:
        return Discovery(plan, (), paths)
    names = [name for name in plan.datasets if name != ALL]
    reasons: dict[str, str] = {}  # why a dataset is left out
    for name in plan.rules.candidates(plan.source, root):
        if name in names:
            continue
        try:
            _check_complete(plan, read_benchmark(name, root))
            names.append(name)
        except DataError as error:
            reasons[name] = str(error)
    if not names:
        raise _nothing_for_all(root, reasons)
    notes = tuple(f"{reason} It is left out." for reason in reasons.values())
    return Discovery(replace(plan, datasets=tuple(names)), notes, paths)


def _nothing_for_all(root: Path, reasons: Mapping[str, str]) -> DataError:
    """Returns the error of a plan whose `all` stands for nothing."""
    if not reasons:
        return DataError(f"datasets is {ALL}, but {root} has no dataset that it could stand for.")
    absent = [
        n for n in reasons if n in BENCHMARKS and not os.path.isdir(root / BENCHMARKS[n].folder)
    ]
    others = [name for name in reasons if name not in absent]
    parts = []
    if others:
        first = reasons[others[0]].rstrip(".")
        parts.append(f"images of {listed(others)} are missing ({first})")
    if absent:
        parts.append(f"there is no folder of {listed(absent)}")
    return DataError(
        f"datasets is {ALL}, but {root} has no dataset whose test images and shots exist: "
        f"{'; '.join(parts)}."
    )


def _find(entry: str, root: Path | None, paths: dict[str, str]) -> str:
    """Returns the name of a plan's entry; if it is a path, that is added to the paths."""
    if entry in (*BENCHMARKS, SCENES, ALL):
        return entry
    path = full_path(entry)
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
    if name in BENCHMARKS:
        raise ConfigError(
            f"{path} would be called {name!r}, which is a published dataset; rename it, or give "
            f"--datasets {name} --data {path.parent}."
        )
    if name in (SCENES, ALL, AVERAGE):
        raise ConfigError(
            f"{path} would be called {name!r}, which has another meaning here; rename it."
        )
    if paths.setdefault(name, str(path)) != str(path):
        raise ConfigError(f"{paths[name]} and {path} are both called {name!r}; rename one of them.")
    return name


def full_path(entry: str) -> Path:
    """Returns the path that an entry of a plan may be."""
    return Path(os.path.abspath(os.path.expanduser(entry)))


def name_of(path: Path) -> str:
    """Returns what the data at a path is called, which files can begin with."""
    name = path.name if os.path.isdir(path) else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:NAME_LENGTH] or "data"


def check_data(runs: Iterable[Run], root: Path | None, paths: Mapping[str, str], out: Path) -> None:
    """Reads the lists of all datasets and raises what is wrong with them; no image is opened.

    Parameters
    ----------
    runs : iterable of Run
        The runs that are planned.
    root : Path or None
        The folder that contains the published datasets.
    paths : mapping
        The paths of the user's own datasets, by name.
    out : Path
        The folder of the records.

    Raises
    ------
    ConfigError, DataError
        If a run without a result in `out` cannot be done with its data, or `out` has records of
        other data of that name.
    """
    tasks: dict[tuple[str, str, tuple[str, ...], int, int], bool] = {}  # whether shots are used
    for run in runs:
        if _is_done(run, out):
            continue
        key = (run.protocol, run.dataset, run.targets, run.shots, run.seed)
        tasks[key] = tasks.get(key, False) or run.arm != ZERO_SHOT
    names = dict.fromkeys(name for _, dataset, targets, *_ in tasks for name in (dataset, *targets))
    names.pop(SCENES, None)  # in the package, so nothing can be missing
    data = _read_all(list(names), root, paths)
    incomplete: dict[str, str] = {}
    for (protocol, name, targets, shots, seed), trains in tasks.items():
        if name not in data:
            continue
        tested = {target: data[target].dataset for target in targets if target in data}
        task = find_protocol(protocol).task(data[name].dataset, tested, shots, seed)
        for test_name, test in task.tests.items():
            if (test_name if test_name in targets else name) in paths:
                _check_classes(test, shots)
        missing = missing_files(task.training.train) if trains else []
        if missing:
            sentence = (
                f"{name}: {len(missing):,} of the {len(task.training.train):,} training images "
                f"that {several(shots, 'shot')} and seed {seed} draw are missing, first: "
                f"{missing[0]}"
            )
            incomplete.setdefault(name, sentence)
    if incomplete:
        datasets = [data[name].dataset for name in incomplete]
        drawn = {(shots, seed) for _, name, _, shots, seed in tasks if name in incomplete}
        raise DataError(f"{'; '.join(incomplete.values())}. {_what_is_there(datasets, drawn)}")
    own = {name: data.get(name) or BenchData.read(name, "", path) for name, path in paths.items()}
    if own:
        _check_unchanged(own, out)


def _is_done(run: Run, out: Path) -> bool:
    """Returns whether a run has a result."""
    with suppress(DataError):  # a damaged record is written anew
        record = read_record(record_path(out, run.id))
        return record is not None and record.done
    return False


def _read_all(
    names: Sequence[str], root: Path | None, paths: Mapping[str, str]
) -> dict[str, BenchData]:
    """Returns datasets by name; raises DataError if one is not there, or own images are not."""
    absent = [
        name
        for name in names
        if name in BENCHMARKS and not os.path.isdir((root or Path()) / BENCHMARKS[name].folder)
    ]
    if absent:
        raise DataError(
            f"{root} has no folder of {listed(absent)}; `ipl data check` says where the data is "
            "available, and --datasets and --source take others."
        )
    data = {name: BenchData.read(name, str(root or ""), paths.get(name)) for name in names}
    for name in [name for name in names if name in paths]:
        check_files(f"{name} (training)", data[name].dataset.train)
    return data


def _what_is_there(datasets: Sequence[Dataset], drawn: Set[tuple[int, int]]) -> str:
    """Returns a sentence on the seeds or shots whose images exist, for those (shots, seed)."""

    def complete(shots: Iterable[int], seeds: Iterable[int]) -> bool:
        draws = [sample_shots(d.train, n, seed) for d in datasets for n in shots for seed in seeds]
        return not any(missing_files(items) for items in draws)

    planned_shots, planned_seeds = ({values[index] for values in drawn} for index in (0, 1))
    seeds = [n for n in sorted({*planned_seeds, *Plan.seeds}) if complete(planned_shots, [n])]
    shots = [n for n in USUAL_SHOTS if not seeds and complete([n], planned_seeds)]
    if not seeds and not shots:
        return "`ipl data check` counts what is missing."
    option, values = ("--seeds", seeds) if seeds else ("--shots", shots)
    return f"All images exist with {option} {','.join(map(str, values))}."


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
            check_files(
                f"{dataset.name} (training, {several(shots, 'shot')}, seed {seed})",
                sample_shots(dataset.train, shots, seed),
            )


@dataclass(frozen=True)
class BenchData:
    """A dataset without the test images that are missing, and how many those are."""

    dataset: Dataset
    listed: int  # test images, missing or not
    missing: tuple[Item, ...]  # of the test part
    sha256: str  # of the published list, whatever of it is missing
    root: str  # what hashes leave out of paths

    @classmethod
    def read(cls, name: str, root: str, path: str | None = None) -> BenchData:
        """Returns the dataset of that name below a folder, or the user's own at a path."""
        if path is None:
            return cls.of(read_benchmark(name, root), root)
        folder = path if os.path.isdir(Path(path)) else str(Path(path).parent)
        return cls.of(replace(read_dataset(path), name=name), folder)

    @classmethod
    def of(cls, dataset: Dataset, root: str) -> BenchData:
        """Returns a dataset that has been read."""
        missing = set(missing_files(dataset.test))
        if dataset.test and len(missing) == len({item.path for item in dataset.test}):
            first = dataset.test[0].path  # without a test part, training images would be tested
            raise DataError(f"{dataset.name}: all its test images are missing, first: {first}.")
        return cls(
            replace(dataset, test=tuple(item for item in dataset.test if item.path not in missing)),
            len(dataset.test),
            tuple(item for item in dataset.test if item.path in missing),
            items_sha256((*dataset.train, *dataset.test), root),
            root,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns what its reader skipped, and a sentence on the test images that are missing."""
        if not self.missing:
            return self.dataset.notes
        return (
            *self.dataset.notes,
            f"{self.dataset.name}: {len(self.missing):,} of {self.listed:,} test images are "
            f"missing, first: {self.missing[0].path}; accuracies are over the rest.",
        )


def items_sha256(items: Iterable[Item], root: str) -> str:
    """Returns the SHA-256 of the paths below `root` and the labels, in their order.

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
