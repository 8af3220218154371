"""What `all` means: the datasets below a folder that a plan could use, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ipl.bench.plan import BASE_TO_NOVEL, DOMAIN, Plan
from ipl.datasets.benchmark_readers import (
    check_benchmark_name,
    list_domains,
    read_benchmark,
)
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.check import check_files
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import is_folder

ALL = "all"


@dataclass(frozen=True)
class Discovery:
    """A plan for datasets that are there, and a sentence on each that was left out."""

    plan: Plan
    notes: tuple[str, ...] = ()


def find_datasets(plan: Plan, root: Path) -> Discovery:
    """Returns the plan with `all` replaced by every dataset that is complete below `root`.

    Names that are none of a dataset's are refused here.
    """
    if not is_folder(root):
        raise ConfigError(f"data is {str(root)!r}; there is no such folder.")
    named = [name for name in plan.datasets if name != ALL]
    for name in (*named, *filter(None, [plan.source])):
        check_benchmark_name(name)
    notes = []
    if plan.source in BENCHMARKS and not is_folder(root / BENCHMARKS[plan.source].folder):
        folder = BENCHMARKS[plan.source].folder
        notes.append(f"The source {plan.source} is not there: {root} has no folder {folder!r}.")
    if ALL not in plan.datasets:
        return Discovery(plan, tuple(notes))
    for name in _candidates(plan, root):
        if name in named:
            continue
        try:
            _check_complete(plan, read_benchmark(name, root))
            named.append(name)
        except DataError as error:
            notes.append(f"{error} It is left out.")
    if not named:
        first = f": {notes[0]}" if notes else ", nor a folder of one."
        raise DataError(f"None of the datasets is complete in {root}{first}")
    return Discovery(replace(plan, datasets=tuple(named)), tuple(notes))


def _candidates(plan: Plan, root: Path) -> list[str]:
    """Returns the names that `all` may stand for in this protocol."""
    if plan.protocol == DOMAIN and plan.source is not None and "/" in plan.source:
        group = plan.source.partition("/")[0]
        there = list_domains(root / group) if is_folder(root / group) else []
        names = [f"{group}/{domain}" for domain in there]
    else:
        variants = plan.protocol == DOMAIN
        names = [name for name, one in BENCHMARKS.items() if one.is_variant == variants]
    return [name for name in names if name != plan.source]


def _check_complete(plan: Plan, dataset: Dataset) -> None:
    """Raises DataError unless every image is there that the plan would look at."""
    check_files(f"{dataset.name} (test)", dataset.test)
    if plan.protocol == BASE_TO_NOVEL:
        for seed in plan.seeds:
            check_files(
                f"{dataset.name} (training, seed {seed})",
                sample_shots(dataset.train, plan.shots, seed),
            )
