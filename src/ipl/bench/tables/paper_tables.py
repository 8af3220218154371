"""Every table and figure of the paper in its own shape, from the records of a bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import mean
from typing import Any

from ipl.bench import paper_numbers as paper
from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.protocols.protocol import Values
from ipl.bench.records import RunRecord
from ipl.bench.run import canonical
from ipl.bench.tables.figures import SETTINGS, plot_overhead, plot_returns, plot_setting
from ipl.bench.tables.gains import differing_settings
from ipl.bench.tables.methods import MethodRow, common_text, value_of
from ipl.bench.tables.notes import data_notes
from ipl.bench.tables.paper_comparison import published_settings
from ipl.bench.tables.results import Cell, Result, build_results
from ipl.bench.tables.words_table import find_word_searches
from ipl.config import CHOSEN, PLAIN
from ipl.display.formatting import listed, signed
from ipl.display.table import Table
from ipl.metrics import harmonic_mean

# What an ablation varies, with the name of its table.
ABLATIONS = {"template": "sentence that scores words", "words": "number of words", "interval": "t"}
PENALTY = "lambda_"
MEAN_OF_HM = "mean of the HMs"
NOT_FILTERED = ("shots", "backbone", "weights", "random_words")
MOST_COLUMNS = 9  # of numbers side by side
DIFFERENCE = " difference"  # ends the name of a column
NO_VALUES: Mapping[str, Values] = {}


@dataclass
class PaperTable:
    """Rows of numbers in %, with datasets as groups of columns."""

    name: str  # of its files
    title: str
    first: str  # the heading of the rows' labels
    groups: Sequence[str]
    measures: Mapping[str, str]  # of each group, with their headings
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signed_group: str = ""  # whose numbers are differences

    def add_row(
        self,
        label: str,
        values: Mapping[str, Values],
        differences: Mapping[str, Values] = NO_VALUES,
    ) -> None:
        """Adds numbers by group and measure, and their differences from another row."""
        row: dict[str, Any] = {self.first: label}
        for group in self.groups:
            for measure, value in values.get(group, {}).items():
                column = self._column(group, measure)
                row[column] = value
                if measure in differences.get(group, {}):
                    row[column + DIFFERENCE] = differences[group][measure]
        self.rows.append(row)

    def tables(self) -> list[Table]:
        """The table for people: as many groups as fit side by side, the others below them."""
        count = ceil(len(self.groups) * len(self.measures) / MOST_COLUMNS)
        size = ceil(len(self.groups) / count)
        tables = []
        for start in range(0, len(self.groups), size):
            groups = self.groups[start : start + size]
            columns = self._columns(groups)
            rows = [
                [row[self.first], *(self._text(row, name) for name in columns)]
                for row in self.rows
                if any(name in row for name in columns)
            ]
            heads = groups if len(self.measures) > 1 else ()
            names = [self.first, *columns]
            tables.append(Table(names, rows, title=self.title, numbers=columns, groups=heads))
        tables[-1].notes += self.notes
        return tables

    def values(self) -> list[dict[str, Any]]:
        """The rows for programs, in full precision, with every column that one of them has."""
        columns = [
            f"{name}{end}" for name in self._columns(self.groups) for end in ("", DIFFERENCE)
        ]
        columns = [name for name in columns if any(name in row for row in self.rows)]
        return [{name: row.get(name) for name in (self.first, *columns)} for row in self.rows]

    def _columns(self, groups: Sequence[str]) -> list[str]:
        return [self._column(group, measure) for group in groups for measure in self.measures]

    def _column(self, group: str, measure: str) -> str:
        return f"{group} {self.measures[measure]}" if len(self.measures) > 1 else group

    def _text(self, row: Mapping[str, Any], column: str) -> str:
        """A number, with its difference in brackets."""
        if column not in row:
            return "-"
        if self.signed_group and column in self._columns([self.signed_group]):
            return signed(row[column], 2)
        change = row.get(column + DIFFERENCE)
        return f"{row[column]:.2f}" + ("" if change is None else f" ({signed(change, 2)})")


def paper_tables(runs: Sequence[RunRecord]) -> list[PaperTable]:
    """The result tables, the ablations and the penalty table that the records have runs for."""
    tables = [_result_table(result) for result in build_results(as_published(runs))]
    for setting, title in ABLATIONS.items():
        for result in build_results(_ablated(runs, setting)):
            table = _result_table(result)
            table.name, table.title = f"{setting}-{table.name}", f"{table.title}: the {title}"
            tables.append(table)
    return [*tables, *_penalty_tables(runs)]


def paper_figures(runs: Sequence[RunRecord]) -> dict[str, dict[str, bytes]]:
    """Every figure that the records have the numbers for: svg and png by the figure's name."""
    published = as_published(runs)
    most_shots = max(run.shots for run in published)
    shown = [run for run in published if run.shots == most_shots]
    overheads = map(plot_overhead, build_results(shown))
    figures = {
        "marginal-gain": plot_returns(find_word_searches(shown)),
        "overhead": next(filter(None, overheads), None),
    }
    for setting in SETTINGS:
        for result in build_results(as_published(runs, setting)):
            figures[f"{setting.rstrip('_')}-{result.name}"] = plot_setting(result, setting)
    return {name: files for name, files in figures.items() if files}


def as_published(runs: Sequence[RunRecord], free: str = "") -> list[RunRecord]:
    """Of runs that differ in a setting on a dataset, those with the paper's value, if any has it.

    A folder may have a row of the paper's tables and its ablations; `free` is what one of them
    varies.
    """
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.protocol, run.learner, run.arm, run.dataset), []).append(run)
    kept: list[RunRecord] = []
    for own in groups.values():
        for setting in dict.fromkeys(key for run in own for key in run.config()):
            if setting not in (free, *NOT_FILTERED):
                own = [run for run in own if _has_published(run, setting)] or own
        kept += own
    return kept


def _has_published(run: RunRecord, setting: str) -> bool:
    value = value_of(run, setting)
    return setting not in (known := published_settings(run)) or canonical(value) == canonical(
        known[setting]
    )


def _ablated(runs: Sequence[RunRecord], setting: str) -> list[RunRecord]:
    """The runs with words of learners that were run with several values of a setting."""
    chosen = [run for run in as_published(runs, setting) if run.arm == CHOSEN]
    values: dict[tuple[str, str, str], set[str]] = {}
    for run in chosen:
        key = (run.protocol, run.learner, run.dataset)
        values.setdefault(key, set()).add(canonical(value_of(run, setting)))
    return [r for r in chosen if len(values[r.protocol, r.learner, r.dataset]) > 1]


# -- results: methods as rows, datasets as groups of columns --------------------------------------


def _result_table(result: Result) -> PaperTable:
    """A row for each method, with its difference from the plain learner and the paper's below."""
    groups = [*result.datasets, AVERAGE] if result.source else [AVERAGE, *result.datasets]
    if len(result.averaged) == 1:
        groups.remove(AVERAGE)
    title = f"{result.title}, accuracy in %, {result.average_name}"
    table = PaperTable(result.name, title, "method", groups, result.protocol.measures)
    rows = [(method, result.row(method)) for method in result.methods]
    rows = [(method, row) for method, row in rows if any(cell.mean for cell in row.values())]
    for method, row in sorted(rows, key=lambda one: not one[1][AVERAGE].complete):
        complete = row[AVERAGE].complete
        shown = {group: row[group] for group in groups if group != AVERAGE or complete}
        plain = _plain(method, result) or {}
        differences = {name: _difference(cell, plain.get(name)) for name, cell in shown.items()}
        values = {name: cell.mean for name, cell in shown.items()}
        table.add_row(method.label if complete else f"{method.label} †", values, differences)
        published = {name: cell.published for name, cell in shown.items()}
        if any(published.values()):
            table.add_row("in the paper", published)
    if any(_plain(method, result) for method, _ in rows):
        table.notes.append("In brackets: the difference from the plain learner.")
    if any(not row[AVERAGE].complete for _, row in rows) and AVERAGE in groups:
        table.notes.append("†: not on all datasets, so no average is compared.")
    seeds = sorted({run.seed for run in result.runs})
    common = [
        text
        for text in (common_text(result.runs), f"seeds {listed([str(seed) for seed in seeds])}")
        if text
    ]
    table.notes += [f"Ours: {', '.join(common)}.", *data_notes(result)]
    return table


def _plain(method: MethodRow, result: Result) -> Mapping[str, Cell] | None:
    """The row of the same learner without words; None for that row itself."""
    for other in result.methods:
        is_plain = other.arm == PLAIN and other.learner == method.learner
        if is_plain and method.arm != PLAIN and differing_settings(other, method) is not None:
            return result.row(other)
    return None


def _difference(cell: Cell, plain: Cell | None) -> Values:
    if plain is None or not plain.complete:
        return {}
    return {m: value - plain.mean[m] for m, value in cell.mean.items() if m in plain.mean}


# -- the penalty: datasets as rows ----------------------------------------------------------------


def _penalty_tables(runs: Sequence[RunRecord]) -> Iterator[PaperTable]:
    """With and without the penalty, for each learner that was run with lambda 0 and the paper's.

    "With" has each dataset's own lambda. The paper's average HM is the mean of its cells, unlike
    that of its main table: both are shown.
    """
    chosen = [run for run in as_published(runs, PENALTY) if run.arm == CHOSEN and run.rules.parts]
    kept = [run for run in chosen if _has_published(run, PENALTY)]
    without = [run for run in chosen if value_of(run, PENALTY) == 0]
    rows = {
        end: {m.label: result.row(m) for result in build_results(own) for m in result.methods}
        for end, own in (("with", kept), ("without", without))
    }
    for label in [label for label in rows["with"] if label in rows["without"]]:
        both = {end: own[label] for end, own in rows.items()}
        datasets = [name for name, cell in both["with"].items() if name != AVERAGE and cell.mean]
        datasets = [n for n in datasets if n in both["without"] and both["without"][n].mean]
        if not datasets:
            continue
        columns = {
            end: _with_averages({name: row[name].mean for name in datasets})
            for end, row in both.items()
        }
        columns["difference"] = {
            name: {m: columns["with"][name][m] - value for m, value in values.items()}
            for name, values in columns["without"].items()
        }
        if all(row[name].published for row in both.values() for name in datasets):
            for end, row in both.items():
                published = _with_averages({name: row[name].published for name in datasets})
                if set(datasets) == set(paper.ELEVEN):
                    published[MEAN_OF_HM] = {"hm": paper.penalty_average(end)}
                columns[f"the paper's, {end}"] = published
        table = PaperTable(
            f"penalty-{both['with'][AVERAGE].method.learner}",
            f"{label} with each dataset's lambda in the paper, and without the penalty, in %",
            "dataset",
            list(columns),
            {"base": "base", "novel": "novel", "hm": "HM"},
            signed_group="difference",
        )
        for name in columns["with"]:
            table.add_row(name, {group: values[name] for group, values in columns.items()})
        table.notes.append(
            f"{AVERAGE}: its HM is that of the averages, as in the main table; {MEAN_OF_HM}: as in "
            "the paper's table of the penalty, where two cells are misprinted."
        )
        yield table


def _with_averages(values: dict[str, Values]) -> dict[str, Values]:
    """The values of each dataset, and their average in both ways."""
    base, novel, hm = (mean(v[m] for v in values.values()) for m in ("base", "novel", "hm"))
    average = {"base": base, "novel": novel, "hm": harmonic_mean(base, novel)}
    return {**values, AVERAGE: average, MEAN_OF_HM: {"hm": hm}}
