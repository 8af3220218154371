"""The cells of a table: means and deviations over seeds, averages over datasets, and gaps."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipl.bench.plan import ZERO_SHOT
from ipl.bench.protocols.protocol import Protocol, Values
from ipl.bench.records import NOT_RUN, RunRecord
from ipl.bench.tables.methods import Method
from ipl.bench.tables.paper import SOURCE
from ipl.bench.tables.paper_comparison import (
    NOT_TESTED,
    why_not,
    why_not_data,
    why_not_seeds,
)

AVERAGE = "average"
BySeed = dict[int, tuple[RunRecord, Values]]


@dataclass(frozen=True)
class Number:
    """A mean and the sample standard deviation over seeds; None where there is but one seed."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class Cell:
    """One method on one dataset, or its average: our numbers, the paper's, and what to know."""

    dataset: str
    arm: Method
    numbers: Mapping[str, Number]  # by measure, in %; empty if nothing was finished
    seeds: tuple[int, ...]  # that were finished
    gaps: tuple[str, ...] = ()  # runs that are missing or failed, a few words each
    paper: Values | None = None  # whether or not our setting is the paper's
    differs: tuple[str, ...] = ()  # why it is not

    @property
    def comparable(self) -> bool:
        """Returns whether the paper's number may stand beside ours."""
        return self.paper is not None and bool(self.numbers) and not self.differs


def measures_of(run: RunRecord, dataset: str) -> Values | None:
    """Returns a finished run's measures on a dataset in %, or None if it has none."""
    return run.rules.results(run.dataset, run.accuracy, dataset)


def finished(arm: Method, dataset: str) -> BySeed:
    """Returns the finished runs of an arm on a dataset with their measures, by seed."""
    found: BySeed = {}
    for run in sorted(arm.runs, key=lambda run: run.time):  # of two the later counts
        values = measures_of(run, dataset)
        if values is not None:
            found[run.seed] = (run, values)
    return found


def entry_of(arm: Method, dataset: str, results: BySeed, expected: Sequence[int]) -> Cell:
    """Returns an arm's numbers on a dataset, and what is missing of the expected seeds."""
    protocol = arm.runs[0].rules
    seeds = tuple(sorted(results))
    runs = [results[seed][0] for seed in seeds]
    reasons = [reason for run in runs for reason in (*why_not(run), *why_not_data(run, dataset))]
    if runs and arm.learner != ZERO_SHOT:
        reasons += why_not_seeds(seeds)
    return Cell(
        dataset,
        arm,
        _numbers(protocol, [results[seed][1] for seed in seeds]),
        seeds,
        _gaps(arm, dataset, seeds, expected),
        protocol.paper_results(arm.learner, arm.with_words, dataset),
        tuple(dict.fromkeys(reasons)),
    )


def average_of(
    arm: Method, parts: Sequence[Cell], results: Mapping[str, BySeed], source: str | None
) -> Cell:
    """Returns the average over datasets; its deviation is over the seeds that all of them have."""
    protocol = arm.runs[0].rules
    full = [part for part in parts if part.numbers]
    gaps = []
    if len(full) < len(parts):
        absent = ", ".join(part.dataset for part in parts if not part.numbers)
        gaps.append(f"{len(full)} of {len(parts)} datasets (without {absent})")
    if short := [part.dataset for part in full if part.gaps]:
        gaps.append(f"with fewer seeds on {', '.join(short)}")
    seeds = set.intersection(*(set(part.seeds) for part in full)) if full else set()
    numbers: dict[str, Number] = {}
    if full:
        each = [
            protocol.mean([results[part.dataset][seed][1] for part in full])
            for seed in sorted(seeds)
        ]
        middle = protocol.mean([{m: n.mean for m, n in part.numbers.items()} for part in full])
        deviations = {m: n.std for m, n in _numbers(protocol, each).items()}
        numbers = {m: Number(value, deviations.get(m)) for m, value in middle.items()}
    return Cell(
        AVERAGE,
        arm,
        numbers,
        tuple(sorted(seeds)),
        tuple(gaps),
        protocol.paper_average(arm.learner, arm.with_words),
        tuple(_why_not_average(protocol, source, full)),
    )


def _why_not_average(protocol: Protocol, source: str | None, full: Sequence[Cell]) -> list[str]:
    reasons = list(dict.fromkeys(reason for part in full for reason in part.differs))
    wanted = protocol.paper_datasets(source)
    absent = set(wanted) - {part.dataset for part in full}
    if full and not wanted and source is not None:
        reasons = [reason for reason in reasons if not reason.startswith(NOT_TESTED)]
        reasons.insert(0, f"the paper's source is {SOURCE}, not {source}")
    elif full and absent:
        there = len(wanted) - len(absent)
        reasons.insert(0, f"{there} of the paper's {len(wanted)} datasets")
    return reasons


def _numbers(protocol: Protocol, values: Sequence[Values]) -> dict[str, Number]:
    """Returns mean and deviation of each measure; nothing of no values."""
    if not values:
        return {}
    deviations = {
        measure: statistics.stdev(v[measure] for v in values) if len(values) > 1 else None
        for measure in values[0]
    }
    return {m: Number(mean, deviations[m]) for m, mean in protocol.mean(values).items()}


def _gaps(
    arm: Method, dataset: str, seeds: Sequence[int], expected: Sequence[int]
) -> tuple[str, ...]:
    if set(seeds) >= set(expected):
        return ()
    across = arm.runs[0].rules.has_source  # a run covers all datasets
    failed = {
        run.seed: run.error
        for run in arm.runs
        if run.error not in (None, NOT_RUN)
        and run.seed not in seeds
        and (across or run.dataset == dataset)
    }
    told = [f"seed {seed} failed: {error}" for seed, error in sorted(failed.items())]
    absent = [str(seed) for seed in expected if seed not in seeds and seed not in failed]
    if absent:
        told.append(f"not run: seed {', '.join(absent)}")
    return (f"{len(seeds)} of {len(expected)} seeds ({'; '.join(told)})",)
