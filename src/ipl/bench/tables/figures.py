"""Figures of a bench: what each word adds, and curves over a setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.tables.cost_table import cost_rows
from ipl.bench.tables.gains import find_gains
from ipl.bench.tables.methods import MethodRow, learner_name
from ipl.bench.tables.results import Cell, Result
from ipl.bench.tables.words_table import WordSearch
from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM
from ipl.display.formatting import several
from ipl.display.plots import ErrorBarLine, Panel, plot_panels
from ipl.words.selection import Selection

SETTINGS = {
    "shots": "training images per class",
    "words": "number of words, k",
    "interval": "epochs after each word, t",
    "lambda_": "weight of redundancy, λ",
}
TITLES = {"base": "base classes", "novel": "novel classes", "hm": "harmonic mean"}
OVERHEAD = {  # columns of the cost table
    "training_seconds": "time of training, s",
    "peak_memory": "peak memory, GB",
    "utilisation_mean": "GPU utilisation, %",
}
PATTERNS = {CHOSEN: "solid", EMPTY: "dotted", RANDOM: "dashdot", GIVEN: "dashdot"}  # of lines
MIXED = "mixed"  # in place of a value: the datasets of a row have different ones


# -- returns of words -----------------------------------------------------------------------------


def plot_returns(searches: Sequence[WordSearch]) -> dict[str, bytes] | None:
    """Gain and utility of each word in order; None without words.

    Points are means over datasets that have as many words, each the mean over its searches (one
    for each seed); bars are the standard deviation over datasets.
    """
    by_dataset: dict[str, list[Selection]] = {}
    for search in searches:
        if search.selection and search.selection.steps:
            by_dataset.setdefault(search.dataset, []).append(search.selection)
    longest = max((len(s.steps) for own in by_dataset.values() for s in own), default=0)
    if not longest:
        return None
    lines = []
    for number, (name, pattern) in enumerate((("gain", "solid"), ("utility", "dashed"))):
        points = []
        for index in range(longest):
            values = [
                [getattr(s.steps[index], name) for s in own if len(s.steps) > index]
                for own in by_dataset.values()
            ]
            means = [statistics.mean(own) for own in values if own]
            deviation = statistics.stdev(means) if len(means) > 1 else 0.0
            points.append((index + 1.0, statistics.mean(means), deviation))
        lines.append(ErrorBarLine(name, tuple(points), number, pattern))
    ticks = tuple((float(n), str(n)) for n in range(1, 1 + longest))
    title = f"average of {several(len(by_dataset), 'dataset')}"
    panel = Panel(title, tuple(lines), ticks)
    title = "What each word adds to the words before it; gain is utility less the penalty"
    return plot_panels([panel], title, "word", "fall of the loss")


# -- overhead -------------------------------------------------------------------------------------


def plot_overhead(result: Result) -> dict[str, bytes] | None:
    """What learners cost without and with words; None unless one was run with both.

    Rows of a learner that differ in a setting are averaged. The device that comes first counts.
    The last panel needs runs that were profiled.
    """
    pairs = find_gains(result, {"overhead": (PLAIN, CHOSEN)})
    if not pairs:
        return None
    rows = cost_rows([result])
    device = next(row["device"] for row in rows if row["method"] == pairs[0].method.label)
    costs = {row["method"]: row for row in rows if row["device"] == device}
    pairs = [p for p in pairs if p.baseline.label in costs and p.method.label in costs]
    learners = list(dict.fromkeys(pair.method.learner for pair in pairs))
    ticks = tuple((float(x), learner_name(name)) for x, name in enumerate(learners))
    arms = {
        "without words": [pair.baseline for pair in pairs],
        "with words": [pair.method for pair in pairs],
    }
    panels = []
    for metric, title in OVERHEAD.items():
        lines = []
        for number, (label, methods) in enumerate(arms.items()):
            points = []
            for x, learner in enumerate(learners):
                own = [costs[m.label][metric] for m in methods if m.learner == learner]
                values = [value for value in own if value is not None]
                if values:
                    points.append((float(x), statistics.mean(values), 0.0))
            lines.append(ErrorBarLine(label, tuple(points), number, "none"))
        if any(line.points for line in lines):
            panels.append(Panel(title, tuple(lines), ticks))
    if not panels:
        return None
    title = (
        f"What a fit costs on average. {result.title}, {device}. Time is of the training "
        "alone, memory and utilisation also of the search, unless its words came from the cache"
    )
    return plot_panels(panels, title, "", "")


# -- curves over a setting ------------------------------------------------------------------------


def plot_setting(result: Result, setting: str) -> dict[str, bytes] | None:
    """Accuracies over a setting, a line for each method; None unless it has two values.

    A protocol with one measure has a panel for each dataset and the average; one with several has
    a panel for each of them, of the average or the only dataset. Bars are the standard deviation
    over seeds. A method that does not have the setting is a level line.
    """
    values = [_value(method, setting) for method in result.methods]
    curves: dict[str, list[int]] = {}  # the methods of a line, by its name
    for index, method in enumerate(result.methods):
        if values[index] != MIXED:
            curves.setdefault(_label_without(method, setting), []).append(index)
    if not any(len({values[index] for index in curve}) > 1 for curve in curves.values()):
        return None
    numbers = sorted({value for value in values if isinstance(value, int | float)})
    # Shots double from one to the next.
    positions = {n: math.log2(n) if setting == "shots" and n > 0 else float(n) for n in numbers}
    ticks = tuple((positions[n], f"{n:g}") for n in numbers)
    datasets = [name for name in result.datasets if name != result.source]
    average = AVERAGE in result.shown
    headline = AVERAGE if average else datasets[0]
    measures = list(result.protocol.measures)
    if len(measures) > 1:
        shown = [(headline, measure, TITLES.get(measure, measure)) for measure in measures]
        title = f"{result.title}, {result.average_name if average else headline}"
    else:
        shown = [(name, measures[0], name) for name in datasets]
        shown += [(AVERAGE, measures[0], result.average_name)] if average else []
        title = result.title
    panels = [
        Panel(name, _lines(curves, values, result.of(dataset), measure, positions), ticks)
        for dataset, measure, name in shown
    ]
    statistic = "mean and standard deviation over seeds"
    return plot_panels(panels, f"{title}: {statistic}", SETTINGS[setting], "accuracy in %")


def _value(method: MethodRow, setting: str) -> int | float | str | None:
    """The value that all runs of a method have, or `MIXED`; None without the setting."""
    found = {run.config().get(setting) for run in method.runs}
    value = found.pop()
    return MIXED if found or isinstance(value, str) else value


def _label_without(method: MethodRow, setting: str) -> str:
    others = {key: value for key, value in method.varied.items() if key != setting}
    return replace(method, varied=others).label


def _lines(
    curves: Mapping[str, Sequence[int]],
    values: Sequence[int | float | str | None],
    cells: Sequence[Cell],
    measure: str,
    positions: Mapping[float, float],
) -> tuple[ErrorBarLine, ...]:
    """A line for each curve: a colour for each learner, a pattern for each arm."""
    methods = {label: cells[curve[0]].method for label, curve in curves.items()}
    learners = list(dict.fromkeys(method.learner for method in methods.values()))
    kinds = {(method.learner, method.arm) for method in methods.values()}
    lines = []
    for number, (label, curve) in enumerate(curves.items()):
        points = []
        for index in curve:
            value, cell = values[index], cells[index]
            at = [positions[value]] if isinstance(value, int | float) else positions.values()
            if measure in cell.mean and cell.complete:
                points += [(x, cell.mean[measure], cell.std.get(measure, 0.0)) for x in at]
        # A learner with several rows of the same kind needs a colour for each of them.
        colour = learners.index(methods[label].learner) if len(kinds) == len(curves) else number
        pattern = PATTERNS.get(methods[label].arm, "dashed")
        lines.append(ErrorBarLine(label, tuple(sorted(points)), colour, pattern))
    return tuple(lines)
