"""Figures of a bench: returns of words, curves over a setting, comparisons with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipl.bench.protocols.registry import all_measures
from ipl.bench.records import RunRecord
from ipl.bench.tables.cells import AVERAGE, Cell
from ipl.bench.tables.methods import Method
from ipl.bench.tables.result_table import ResultTable
from ipl.display.formatting import listed, several
from ipl.display.plots import ErrorBarLine, Interval, Panel, plot_intervals, plot_panels
from ipl.display.table import Table
from ipl.words.selection import Selection

MOST_PANELS = 12
SETTINGS = {
    "shots": "training images per class",
    "words": "number of words, k",
    "interval": "epochs after each word, t",
}
TITLES = {"base": "base classes", "novel": "novel classes", "hm": "harmonic mean"}
MIXED = "mixed"  # in place of a value: the datasets of a row have different ones
COMPARED = "difference in percentage points, with its 95 % interval"

Files = dict[str, bytes]  # by format, "svg" and "png"


@dataclass(frozen=True)
class Drawing:
    """A figure with all that a page needs to show it.

    Attributes
    ----------
    name : str
        The name of its files.
    section : str
        The title of the section of the page that it belongs to.
    title, alt : str
        Its caption, and what it shows for those who do not see it.
    files : dict of str to bytes
        The files by format, "svg" and "png".
    table : Table or None
        Its numbers, if no table of the page has them.
    """

    name: str
    section: str
    title: str
    alt: str
    files: Files
    table: Table | None = None


def draw_figures(results: Sequence[ResultTable]) -> list[Drawing]:
    """Returns all figures that the records have the numbers for."""
    drawings = []
    for result in results:
        ending = result.protocol + (f"-{result.source.replace('/', '-')}" if result.source else "")
        for setting, axis in SETTINGS.items():
            files = plot_setting(result, setting)
            if files is not None:
                title = f"Accuracy over the {axis}"
                names = dict.fromkeys(_label_without(m, setting) for m in result.methods)
                alt = f"{title}, a line for each method: {listed(list(names))}."
                drawings.append(Drawing(f"{setting}-{ending}", result.title, title, alt, files))
        files = plot_gains(result)
        if files is not None:
            title = "What layout, words and their choice are worth"
            alt = f"{title}: differences between arms with intervals; the numbers are in the table."
            drawings.append(Drawing(f"arms-{ending}", result.title, title, alt, files))
        files = plot_returns(result)
        if files is not None:
            table = returns_table(result)
            count = several(len(table.sections), "dataset")
            alt = f"Gain and utility of each word in order, on {count}; the numbers follow."
            title = "What each further word adds"
            drawings.append(Drawing(f"returns-{ending}", result.title, title, alt, files, table))
    return drawings


# -- arms ---------------------------------------------------------------------------------------


def plot_gains(result: ResultTable) -> Files | None:
    """Returns the comparisons of each learner's arms by the measure that counts, with intervals."""
    measure = result.measures[-1]
    groups: dict[str, list[Interval]] = {}
    for gain in result.gains:
        effect = gain.effects[measure]
        label = f"{gain.comparison} ({gain.baseline.arm} → {gain.method.arm})"
        label += ", too few runs" if effect.p is None else ""
        row = Interval(label, effect.difference, effect.low, effect.high)
        groups.setdefault(gain.learner, []).append(row)
    title = f"{result.title}: differences in {all_measures()[measure]} between arms"
    return plot_intervals(list(groups.items()), title, COMPARED) if groups else None


# -- returns of words -----------------------------------------------------------------------------


def plot_returns(result: ResultTable) -> Files | None:
    """Returns gain and utility of each word in order, a panel for each dataset; None without words.

    Points are means over searches (one for each seed), bars their standard deviation.
    """
    searches = _searches(result)
    if not searches:
        return None
    several_shots = "shots" not in result.common
    panels = [
        Panel(
            f"{dataset}, {several(shots, 'shot')}" if several_shots else dataset,
            (
                ErrorBarLine("gain", _points(found, "gain"), 0),
                ErrorBarLine("utility", _points(found, "utility"), 1, "dashed"),
            ),
            tuple((float(n), str(n)) for n in range(1, 1 + max(len(s.steps) for s in found))),
            zero=True,
        )
        for dataset, (shots, found) in list(searches.items())[:MOST_PANELS]
    ]
    title = (
        f"{result.title}: what each word adds to the words before it, mean and standard deviation "
        f"over seeds; gain is utility less the penalty{_left_out(len(searches))}"
    )
    return plot_panels(panels, title, "word", "fall of the loss")


def returns_table(result: ResultTable) -> Table:
    """Returns the numbers of `plot_returns`."""
    table = Table(
        ["dataset", "word", "gain", "utility", "searches"],
        caption="Mean gain and utility of the words in order",
        numbers=["word", "gain", "utility", "searches"],
    )
    for dataset, (_, searches) in _searches(result).items():
        gains, utilities = _points(searches, "gain"), _points(searches, "utility")
        rows = []
        for (position, gain, _), (_, utility, _) in zip(gains, utilities, strict=True):
            count = sum(len(search.steps) >= position for search in searches)
            name = dataset if position == 1 else ""
            rows.append([name, f"{position:g}", f"{gain:+.4f}", f"{utility:+.4f}", str(count)])
        table.add_section(rows)
    return table


def _searches(result: ResultTable) -> dict[str, tuple[int, list[Selection]]]:
    """Returns the shots and the longest search of each seed, by dataset; learners share searches.

    Of searches with different settings those count that most seeds have, then the most shots.
    """
    found: dict[str, dict[tuple[Any, ...], dict[int, Selection]]] = {}
    for run in (run for method in result.methods for run in method.runs):
        if run.done and run.selection and run.selection.steps:
            by_seed = found.setdefault(run.dataset, {}).setdefault(_question(run), {})
            other = by_seed.get(run.seed)
            if other is None or len(run.selection.steps) > len(other.steps):
                by_seed[run.seed] = run.selection
    searches = {}
    for dataset in sorted(found, key=result.datasets.index):
        asked = found[dataset]
        question = max(asked, key=lambda question: (len(asked[question]), question[0]))
        searches[dataset] = (question[0], list(asked[question].values()))
    return searches


def _question(run: RunRecord) -> tuple[Any, ...]:
    """Returns the shots, and everything else that decides which words a search finds."""
    selection = run.selection
    assert selection is not None
    objective = (selection.lambda_, selection.preset, selection.word_embedding)
    pool = (selection.template, selection.pool_sha256)
    return (run.shots, run.backbone.get("weights_sha256"), *objective, *pool)


def _points(searches: Sequence[Selection], name: str) -> tuple[tuple[float, float, float], ...]:
    """Returns (word, mean, deviation) of a number of the steps, over the searches that have it."""
    points = []
    for index in range(max(len(search.steps) for search in searches)):
        steps = [search.steps[index] for search in searches if len(search.steps) > index]
        points.append((index + 1.0, *_mean_and_deviation([getattr(step, name) for step in steps])))
    return tuple(points)


def _mean_and_deviation(numbers: Sequence[float]) -> tuple[float, float]:
    return statistics.mean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else 0.0


# -- curves over a setting ------------------------------------------------------------------------


def plot_setting(result: ResultTable, setting: str) -> Files | None:
    """Returns accuracies over a setting, a line for each method; None unless it has two values.

    A protocol with one measure has a panel for each dataset and the average; one with several has
    a panel for each of them, of the average or the only dataset. Bars are the standard deviation
    over seeds. A method that does not have the setting is a level line.

    Parameters
    ----------
    result : ResultTable
        The results of a protocol.
    setting : str
        A key of `SETTINGS`.
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
    headline = AVERAGE if len(result.averaged) > 1 else datasets[0]
    if len(result.measures) > 1:
        shown = [(headline, m, TITLES.get(m, m)) for m in result.measures]
        title = f"{result.title}, {_data_text(result)}"
    else:
        measure = result.measures[0]
        shown = [(name, measure, name) for name in datasets[: MOST_PANELS - 1]]
        if headline == AVERAGE:
            shown.append((AVERAGE, measure, _data_text(result)))
        title = result.title + _left_out(len(datasets), MOST_PANELS - 1)
    panels = [
        Panel(name, _lines(curves, values, result.of(dataset), measure, positions), ticks)
        for dataset, measure, name in shown
    ]
    statistic = "mean and standard deviation over seeds"
    return plot_panels(panels, f"{title}: {statistic}", SETTINGS[setting], "accuracy in %")


def _value(method: Method, setting: str) -> int | float | str | None:
    """Returns the value that all runs of a method have, or `MIXED`; None without the setting."""
    found = {run.config().get(setting) for run in method.runs}
    value = found.pop()
    return MIXED if found or isinstance(value, str) else value


def _label_without(method: Method, setting: str) -> str:
    others = {key: value for key, value in method.varied.items() if key != setting}
    return replace(method, varied=others).label


def _lines(
    curves: Mapping[str, Sequence[int]],
    values: Sequence[int | float | str | None],
    cells: Sequence[Cell],
    measure: str,
    positions: Mapping[float, float],
) -> tuple[ErrorBarLine, ...]:
    """Returns a line for each curve: a colour for each learner, a pattern for each arm."""
    methods = {label: cells[curve[0]].method for label, curve in curves.items()}
    learners = list(dict.fromkeys(method.learner for method in methods.values()))
    kinds = {(method.learner, method.arm) for method in methods.values()}
    lines = []
    for number, (label, curve) in enumerate(curves.items()):
        points = []
        for index in curve:
            value, mean = values[index], cells[index].numbers.get(measure)
            at = [positions[value]] if isinstance(value, int | float) else positions.values()
            points += [(x, mean.mean, mean.std or 0.0) for x in at if mean is not None]
        # A learner with several rows of the same kind needs a colour for each of them.
        colour = learners.index(methods[label].learner) if len(kinds) == len(curves) else number
        pattern, level = methods[label].pattern, values[curve[0]] is None
        lines.append(
            ErrorBarLine(label, tuple(sorted(points)), colour, pattern, has_dots=not level)
        )
    return tuple(lines)


def _data_text(result: ResultTable) -> str:
    if len(result.averaged) == 1:
        return result.averaged[0]
    kind = "datasets" if result.source is None else "targets"
    return f"average of {len(result.averaged)} {kind}"


def _left_out(count: int, limit: int = MOST_PANELS) -> str:
    return f"; the first {limit} of {count} datasets" if count > limit else ""
