"""Results: records grouped by method and dataset, the one basis of every table and figure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ipl.bench.arms import LINEAR_PROBE, UNTRAINED, ZERO_SHOT
from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.protocols import find_protocol, known_protocols
from ipl.bench.protocols.protocol import Protocol, Values, mean_values
from ipl.bench.records import RunRecord
from ipl.bench.tables.methods import MethodRow, group_methods
from ipl.bench.tables.paper_comparison import (
    NOT_TESTED,
    ablation_numbers,
    data_differences,
    seed_differences,
    setting_differences,
)
from ipl.config import CHOSEN
from ipl.display.formatting import several


@dataclass(frozen=True)
class Cell:
    """One method on one dataset, or its average: our numbers, the paper's, and what to know."""

    method: MethodRow
    dataset: str  # or `AVERAGE`
    mean: Values  # the measures in %; HM is that of the mean base and novel accuracy
    by_seed: Mapping[int, Values]  # draws of random words are averaged within a seed
    runs: Mapping[int, tuple[RunRecord, ...]] = field(default_factory=dict, repr=False)
    gaps: tuple[str, ...] = ()  # the runs that are missing or failed, a few words each
    paper: Values | None = None  # its numbers, whether or not our setting is the paper's
    differences: tuple[str, ...] = ()  # between our setting and the paper's
    ablation: Values = field(default_factory=dict)  # the paper's, where it varies what differs
    complete: bool = True  # whether an average is over all datasets of its table

    @cached_property
    def std(self) -> Values:
        """The sample standard deviation of each measure over seeds; empty for a single seed."""
        if len(self.by_seed) < 2:
            return {}
        return {m: statistics.stdev(v[m] for v in self.by_seed.values()) for m in self.mean}

    @property
    def paper_beside(self) -> Values:
        """The paper's numbers if they may stand beside ours; nothing if not."""
        return self.paper if self.paper and self.mean and not self.differences else {}

    @property
    def published(self) -> Values:
        """The paper's numbers for our setting, be it that of its main tables or an ablation."""
        return self.paper_beside or self.ablation


@dataclass(frozen=True)
class Result:
    """All methods of a protocol on all its datasets."""

    protocol: Protocol
    source: str | None  # the dataset that was trained on, if the protocol has one
    datasets: tuple[str, ...]
    averaged: tuple[str, ...]  # those of them that the average is over
    methods: tuple[MethodRow, ...]
    rows: tuple[Mapping[str, Cell], ...] = field(repr=False)  # of each method, by dataset
    runs: tuple[RunRecord, ...] = field(repr=False)

    @property
    def title(self) -> str:
        return self.protocol.title.format(self.source)

    @property
    def name(self) -> str:
        """The protocol and its source, for names of files."""
        return "-".join([self.protocol.name, *((self.source or "").replace("/", "-").split())])

    @property
    def shown(self) -> tuple[str, ...]:
        """The datasets, and the average if there are several."""
        return (*self.datasets, *((AVERAGE,) if len(self.averaged) > 1 else ()))

    @property
    def average_name(self) -> str:
        noun = "dataset" if self.source is None else "target"
        return f"average of {several(len(self.averaged), noun)}"

    def of(self, dataset: str) -> list[Cell]:
        """The cells of a dataset, or of the average, in the order of the methods."""
        return [row[dataset] for row in self.rows]

    def row(self, method: MethodRow) -> Mapping[str, Cell]:
        """The cells of a method by dataset, with its average."""
        return self.rows[self.methods.index(method)]


def build_results(runs: Sequence[RunRecord]) -> list[Result]:
    """One result for base-to-novel and few-shot each, and one for each source of the others."""
    groups: dict[tuple[int, str], list[RunRecord]] = {}
    for run in runs:
        source = run.dataset if run.rules.has_source else ""
        groups.setdefault((list(known_protocols()).index(run.protocol), source), []).append(run)
    return [_build(groups[key]) for key in sorted(groups)]


def _build(runs: Sequence[RunRecord]) -> Result:
    protocol = find_protocol(runs[0].protocol)
    source = runs[0].dataset if protocol.has_source else None
    datasets = _datasets(runs, source)
    averaged = tuple(name for name in datasets if name != source)
    methods = group_methods(runs)
    learnt_seeds = {run.seed for run in runs if run.learner not in UNTRAINED}
    rows = []
    for method in methods:
        # Zero-shot draws nothing: one run says it all.
        own_seeds = {run.seed for run in method.runs}
        expected = own_seeds if method.learner in UNTRAINED else learnt_seeds
        row = {name: _dataset_cell(protocol, method, name, sorted(expected)) for name in datasets}
        row[AVERAGE] = _average_cell(protocol, method, [row[name] for name in averaged], source)
        rows.append(row)
    return Result(protocol, source, datasets, averaged, tuple(methods), tuple(rows), tuple(runs))


def _datasets(runs: Sequence[RunRecord], source: str | None) -> tuple[str, ...]:
    """The datasets in the paper's order, the source first, others by name."""
    names = {run.dataset for run in runs}
    if source is not None:
        names |= {name for run in runs for name in (*run.accuracy, *run.targets)}
    known = [source, *runs[0].rules.paper_datasets(source)]
    order = {name: index for index, name in enumerate(known) if name}
    return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))


def measures_of(run: RunRecord, dataset: str) -> Values | None:
    """A finished run's measures on a dataset in %, or None if it has none."""
    return run.rules.results(run.dataset, run.accuracy, dataset)


def _dataset_cell(
    protocol: Protocol, method: MethodRow, dataset: str, expected: Sequence[int]
) -> Cell:
    found: dict[int, dict[int, RunRecord]] = {}
    for run in sorted(method.runs, key=lambda run: run.time):  # of two the later counts
        if measures_of(run, dataset) is not None:
            found.setdefault(run.seed, {})[run.draw] = run
    runs = {seed: tuple(draws.values()) for seed, draws in sorted(found.items())}
    by_seed = {
        seed: mean_values([measures_of(run, dataset) or {} for run in own])
        for seed, own in runs.items()
    }
    differences: list[str] = []
    if method.is_published and runs:
        for run in (run for own in runs.values() for run in own):
            differences += [*setting_differences(run), *data_differences(run, dataset)]
        if method.learner != ZERO_SHOT:
            differences += seed_differences(sorted(runs))
    return Cell(
        method,
        dataset,
        protocol.average(list(by_seed.values())) if by_seed else {},
        by_seed,
        runs,
        tuple(_gaps(method, dataset, runs, expected)),
        _paper(protocol, method, dataset),
        tuple(dict.fromkeys(differences)),
        ablation_numbers(method.runs[0], dataset, {*differences}),
    )


def _gaps(
    method: MethodRow,
    dataset: str,
    done: Mapping[int, Sequence[RunRecord]],
    expected: Sequence[int],
) -> Iterator[str]:
    """The seeds and draws of a row that are missing on a dataset, and why."""
    runs = [run for run in method.runs if run.rules.has_source or run.dataset == dataset]
    seeds = {*done}
    if method.learner == LINEAR_PROBE:  # it does not know the classes of a target
        seeds |= {run.seed for run in runs if run.done}
    errors = {run.seed: run.error.rstrip(".") for run in runs if run.error}
    missing = [seed for seed in expected if seed not in seeds]
    for seed in (seed for seed in missing if seed in errors):
        yield f"seed {seed} failed: {errors[seed]}"
    if absent := [str(seed) for seed in missing if seed not in errors]:  # or it is damaged
        yield f"no record of seed {', '.join(absent)}"
    most = len({run.draw for run in method.runs})
    if counts := [str(len(own)) for own in done.values() if len(own) < most]:
        yield f"{', '.join(counts)} of {most} draws of random words in some seeds"


def _average_cell(
    protocol: Protocol, method: MethodRow, cells: Sequence[Cell], source: str | None
) -> Cell:
    """The average over datasets; its deviation is over the seeds that all of them have."""
    filled = [cell for cell in cells if cell.mean]
    absent = [cell.dataset for cell in cells if not cell.mean]
    gaps = []
    if absent and (filled or any(cell.gaps for cell in cells)):
        number = several(len(cells), "dataset")
        gaps.append(f"{len(filled)} of {number} (without {', '.join(absent)})")
    seeds = set.intersection(*(set(cell.by_seed) for cell in filled)) if filled else set()
    by_seed = {
        seed: protocol.average([cell.by_seed[seed] for cell in filled]) for seed in sorted(seeds)
    }
    differences: list[str] = []
    if method.is_published and filled:
        differences = list(dict.fromkeys(text for cell in filled for text in cell.differences))
        wanted = protocol.paper_datasets(source)
        missing = set(wanted) - {cell.dataset for cell in filled}
        if not wanted and source is not None:
            differences = [text for text in differences if not text.startswith(NOT_TESTED)]
        elif missing:
            present = len(wanted) - len(missing)
            differences.insert(0, f"{present} of the paper's {len(wanted)} datasets")
    return Cell(
        method,
        AVERAGE,
        protocol.average([cell.mean for cell in filled]) if filled else {},
        by_seed,
        gaps=tuple(gaps),
        paper=_paper(protocol, method, AVERAGE),
        differences=tuple(differences),
        complete=not absent,
    )


def _paper(protocol: Protocol, method: MethodRow, dataset: str) -> Values | None:
    """The paper's numbers of a row on a dataset or on average, None if it has none."""
    if not method.is_published:
        return None
    row = protocol.paper_table().get((method.learner, method.arm == CHOSEN), {})
    return row.get(dataset)
