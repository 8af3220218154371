"""The cells of a result table: means over seeds, averages over datasets, and what is missing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipl.bench.arms import LINEAR_PROBE, ZERO_SHOT
from ipl.bench.protocols.protocol import Protocol, Values, mean_values
from ipl.bench.records import NOT_RUN, RunRecord
from ipl.bench.tables.intervals import Errors, average_errors, find_intervals, image_errors
from ipl.bench.tables.methods import Method
from ipl.bench.tables.paper_comparison import (
    NOT_TESTED,
    data_differences,
    seed_differences,
    setting_differences,
)
from ipl.display.formatting import several
from ipl.display.table import DIFFERS, Table

AVERAGE = "average"
BySeed = dict[int, "SeedResult"]


@dataclass(frozen=True)
class MeanStd:
    """A mean, its sample standard deviation over seeds, and its 95 % interval.

    There is no deviation of one seed, and no interval if the number of test images is not known.
    """

    mean: float
    std: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SeedResult:
    """The finished runs of a method with one seed, one for each draw, and their mean measures."""

    runs: tuple[RunRecord, ...]
    values: Values


@dataclass(frozen=True)
class Cell:
    """One method on one dataset, or its average: our numbers, the paper's, and what to know.

    Attributes
    ----------
    dataset : str
        The dataset, or `AVERAGE`.
    method : Method
        The row of the table.
    numbers : mapping of str to MeanStd
        Our numbers by measure, in %; empty if no run was finished.
    seeds : tuple of int
        The seeds that were finished.
    gaps : tuple of str
        The runs that are missing or failed, a few words each.
    paper : dict of str to float
        The paper's numbers, whether or not our setting is the paper's; None if it has none.
    differences : tuple of str
        How our setting differs from the paper's; empty for an arm that the paper does not have.
    image_errors : dict of str to tuple, or None
        How far other test images may put each accuracy on a dataset.
    """

    dataset: str
    method: Method
    numbers: Mapping[str, MeanStd]
    seeds: tuple[int, ...]
    gaps: tuple[str, ...] = ()
    paper: Values | None = None
    differences: tuple[str, ...] = ()
    image_errors: Errors | None = None

    @property
    def comparable(self) -> bool:
        """Returns whether the paper's number may stand beside ours."""
        return self.paper is not None and bool(self.numbers) and not self.differences

    @property
    def paper_beside(self) -> Values:
        """Returns the paper's numbers if they may stand beside ours; nothing if not."""
        return self.paper if self.paper and self.comparable else {}


def number_text(number: MeanStd | None) -> str:
    """Returns "82.49 ± 0.31", without the deviation of a single seed, or a dash for None."""
    if number is None:
        return "-"
    return f"{number.mean:.2f}" + (f" ± {number.std:.2f}" if number.std is not None else "")


def paper_numbers(values: Values) -> str:
    """Returns "95.48 / 96.50 / 95.99"."""
    return " / ".join(f"{number:.2f}" for number in values.values())


def paper_text(table: Table, cell: Cell) -> str:
    """Returns the paper's numbers if they are comparable, else a mark with the reasons."""
    if cell.paper is None or not cell.numbers:
        return ""
    if cell.comparable:
        return paper_numbers(cell.paper)
    reasons = [f"not the paper's setting: {text}" for text in cell.differences]
    return DIFFERS + table.footnote_mark(reasons)


def measures_of(run: RunRecord, dataset: str) -> Values | None:
    """Returns a finished run's measures on a dataset in %, or None if it has none."""
    return run.rules.results(run.dataset, run.accuracy, dataset)


def finished_runs(method: Method, dataset: str) -> BySeed:
    """Returns the finished runs of a method on a dataset with their measures, by seed."""
    by_seed: dict[int, dict[int, tuple[RunRecord, Values]]] = {}
    for run in sorted(method.runs, key=lambda run: run.time):  # of two the later counts
        values = measures_of(run, dataset)
        if values is not None:
            by_seed.setdefault(run.seed, {})[run.draw] = (run, values)
    return {
        seed: SeedResult(
            tuple(run for run, _ in draws.values()),
            mean_values([values for _, values in draws.values()]),
        )
        for seed, draws in by_seed.items()
    }


def differing_runs(method: Method, dataset: str) -> list[str]:
    """Returns a note for each seed with runs of one configuration that came to other results.

    Their ids differ, for example because they were tested on other datasets as well.
    """
    by_seed: dict[tuple[int, int], list[RunRecord]] = {}
    for run in sorted(method.runs, key=lambda run: run.time):
        if measures_of(run, dataset) is not None:
            by_seed.setdefault((run.seed, run.draw), []).append(run)
    return [
        f"{method.label} on {dataset}, seed {seed}: {len(runs)} runs came to different results; "
        f"the latest counts, {runs[-1].id}."
        for (seed, _), runs in by_seed.items()
        if any(measures_of(run, dataset) != measures_of(runs[-1], dataset) for run in runs)
    ]


def dataset_cell(method: Method, dataset: str, finished: BySeed, expected: Sequence[int]) -> Cell:
    """Returns a method's numbers on a dataset, and what is missing of the expected seeds."""
    protocol = method.runs[0].rules
    runs = [run for seed in sorted(finished) for run in finished[seed].runs]
    seeds = tuple(sorted(finished or _seeds_of_probe(method)))
    differences = [
        text
        for run in runs
        if method.is_published
        for text in (*setting_differences(run), *data_differences(run, dataset))
    ]
    if runs and method.is_published and method.learner != ZERO_SHOT:
        differences += seed_differences(seeds)
    by_seed = [result.values for _, result in sorted(finished.items())]
    errors = image_errors(runs, dataset, mean_values(by_seed)) if by_seed else None
    return Cell(
        dataset,
        method,
        _with_intervals(protocol, _means(by_seed), errors, by_seed),
        seeds,
        (*_gaps(method, dataset, seeds, expected), *_draw_gaps(method, finished)),
        protocol.paper_results(method.learner, method.with_words, dataset)
        if method.is_published
        else None,
        tuple(dict.fromkeys(differences)),
        errors,
    )


def average_cell(
    method: Method, cells: Sequence[Cell], finished: Mapping[str, BySeed], source: str | None
) -> Cell:
    """Returns the average over datasets; its deviation is over the seeds that all of them have."""
    protocol = method.runs[0].rules
    filled = [cell for cell in cells if cell.numbers]
    absent = [cell for cell in cells if not cell.numbers]
    gaps = []
    if absent and (filled or any(cell.gaps for cell in absent)):
        names = ", ".join(cell.dataset for cell in absent)
        gaps.append(f"{len(filled)} of {several(len(cells), 'dataset')} (without {names})")
    if short := [cell.dataset for cell in filled if cell.gaps]:
        gaps.append(f"with fewer seeds on {', '.join(short)}")
    seeds = set.intersection(*(set(cell.seeds) for cell in filled or cells)) if cells else set()
    numbers: dict[str, MeanStd] = {}
    if filled:
        by_seed = [
            protocol.average([finished[cell.dataset][seed].values for cell in filled])
            for seed in sorted(seeds)
        ]
        means = protocol.average([{m: n.mean for m, n in cell.numbers.items()} for cell in filled])
        deviations = {measure: number.std for measure, number in _means(by_seed).items()}
        numbers = {m: MeanStd(mean, deviations.get(m)) for m, mean in means.items()}
        errors = average_errors([cell.image_errors for cell in filled])
        if len(seeds) < 2 and any(len(cell.seeds) > 1 for cell in filled):
            errors = None  # too few seeds are common to say what others would change
        numbers = _with_intervals(protocol, numbers, errors, by_seed)
    return Cell(
        AVERAGE,
        method,
        numbers,
        tuple(sorted(seeds)),
        tuple(gaps),
        protocol.paper_average(method.learner, method.with_words) if method.is_published else None,
        tuple(_average_differences(protocol, source, filled)) if method.is_published else (),
    )


def _average_differences(
    protocol: Protocol, source: str | None, filled: Sequence[Cell]
) -> list[str]:
    differences = list(dict.fromkeys(text for cell in filled for text in cell.differences))
    wanted = protocol.paper_datasets(source)
    absent = set(wanted) - {cell.dataset for cell in filled}
    if filled and not wanted and source is not None:
        differences = [text for text in differences if not text.startswith(NOT_TESTED)]
    elif filled and absent:
        present = len(wanted) - len(absent)
        differences.insert(0, f"{present} of the paper's {len(wanted)} datasets")
    return differences


def _means(values: Sequence[Values]) -> dict[str, MeanStd]:
    """Returns mean and deviation of each measure; nothing of no values."""
    if not values:
        return {}
    deviations = {
        measure: statistics.stdev(v[measure] for v in values) if len(values) > 1 else None
        for measure in values[0]
    }
    return {m: MeanStd(mean, deviations[m]) for m, mean in mean_values(values).items()}


def _with_intervals(
    protocol: Protocol,
    numbers: Mapping[str, MeanStd],
    errors: Errors | None,
    by_seed: Sequence[Values],
) -> dict[str, MeanStd]:
    """Returns the numbers with their intervals, where these are known."""
    means = {measure: number.mean for measure, number in numbers.items()}
    bounds = find_intervals(protocol, means, errors, by_seed)
    return {m: MeanStd(n.mean, n.std, *bounds.get(m, ())) for m, n in numbers.items()}


def _seeds_of_probe(method: Method) -> set[int]:
    """Returns the seeds of a linear probe that was run and does not know a target's classes."""
    if method.learner != LINEAR_PROBE or not method.runs[0].rules.has_source:
        return set()
    return {run.seed for run in method.runs if run.done}


def _draw_gaps(method: Method, finished: BySeed) -> tuple[str, ...]:
    """Returns a few words if seeds have fewer draws than others."""
    most = len({run.draw for run in method.runs})
    counts = [str(len(result.runs)) for _, result in sorted(finished.items())]
    if set(counts) <= {str(most)}:
        return ()
    return (f"{', '.join(counts)} of {most} draws of random words in the seeds",)


def _gaps(
    method: Method, dataset: str, seeds: Sequence[int], expected: Sequence[int]
) -> tuple[str, ...]:
    if set(seeds) >= set(expected):
        return ()
    across = method.runs[0].rules.has_source  # a run covers all datasets
    failed = {
        run.seed: run.error
        for run in method.runs
        if run.error not in (None, NOT_RUN)
        and run.seed not in seeds
        and (across or run.dataset == dataset)
    }
    reasons = [f"seed {s} failed: {(e or '').rstrip('.')}" for s, e in sorted(failed.items())]
    absent = [str(seed) for seed in expected if seed not in seeds and seed not in failed]
    if absent:  # not run, or its record is damaged
        noun = "seed" if len(absent) == 1 else "seeds"
        reasons.append(f"no valid record: {noun} {', '.join(absent)}")
    return (f"{len(seeds)} of {several(len(expected), 'seed')} ({'; '.join(reasons)})",)
