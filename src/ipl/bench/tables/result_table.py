"""The tables of `ipl table`: built from results, shown to people, and written for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ipl.bench.arms import ZERO_SHOT
from ipl.bench.paper_numbers import AVERAGE, ZERO_SHOT_SOURCE
from ipl.bench.protocols import known_protocols
from ipl.bench.tables.gains import BASELINES, find_gains, gains_table
from ipl.bench.tables.methods import MethodRow, common_settings, common_text
from ipl.bench.tables.notes import data_notes
from ipl.bench.tables.paper_comparison import about_weights
from ipl.bench.tables.results import Cell, Result
from ipl.display.table import DIFFERS, Table


class ResultTables:
    """A result with its comparisons and notes, as tables, as lines of CSV and as plain values."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.gains = find_gains(result)
        self.baselines = find_gains(result, BASELINES)
        self.notes = data_notes(result)

    def tables(self) -> list[Table]:
        """The results, and what the words are worth and the arms beside baselines, if any."""
        compared = {
            "What the words are worth": self.gains,
            "Beside zero-shot and the linear probe": self.baselines,
        }
        more = [gains_table(self.result, own, title) for title, own in compared.items() if own]
        return [self.results(), *more]

    def results(self) -> Table:
        """A section for each dataset and one for the average, a row for each method.

        The average compares only methods that have all its datasets; others stand below it.
        """
        result = self.result
        headings = list(result.protocol.measures.values())
        cells = [cell for name in result.shown for cell in result.of(name)]
        compared = any(cell.paper and cell.mean for cell in cells)
        columns = ["dataset", "method", *headings, "seeds"]
        columns += ["paper " + " / ".join(headings)] if compared else []
        caption = "Accuracy in %, mean ± standard deviation over seeds. "
        caption += common_text(result.runs)
        table = Table(columns, title=result.title, caption=caption, numbers=columns[2:])
        for name in result.datasets:
            heading = f"{name} (source)" if name == result.source else name
            self._add(table, heading, result.of(name), compared)
        if AVERAGE in result.shown:
            for heading, complete in ((result.average_name, True), ("of fewer of them", False)):
                rows = [cell for cell in result.of(AVERAGE) if cell.complete == complete]
                self._add(table, heading, rows, compared)
        table.notes += self.notes
        if compared:
            table.notes += self._paper_notes(cells)
        return table

    def _add(self, table: Table, name: str, cells: Sequence[Cell], compared: bool) -> None:
        rows: list[list[str]] = []
        for cell in cells:
            row = [name if not rows else "", cell.method.label]
            row += [_number_text(cell, measure) for measure in self.result.protocol.measures]
            row.append(str(len(cell.runs or cell.by_seed)) + table.footnote_mark(cell.gaps))
            if compared:
                row.append(_paper_text(table, cell))
            rows.append(row)
        table.add_section(rows)

    def _paper_notes(self, cells: Sequence[Cell]) -> list[str]:
        compared = [cell.method for cell in cells if cell.paper_beside]
        runs = [run for method in compared for run in method.runs if run.done]
        notes = [about_weights(run.backbone) for run in runs]
        notes += [ZERO_SHOT_SOURCE for method in compared if method.learner == ZERO_SHOT]
        return list(dict.fromkeys(notes))

    def cell_rows(self) -> list[dict[str, Any]]:
        """A row for each method and dataset, or average; numbers in %, in full precision."""
        measures = dict.fromkeys(m for each in known_protocols().values() for m in each.measures)
        rows: list[dict[str, Any]] = []
        for cell in (c for name in (*self.result.datasets, AVERAGE) for c in self.result.of(name)):
            row = self._names(cell.method) | {"dataset": cell.dataset}
            for measure in measures:
                row[measure] = cell.mean.get(measure)
                row[f"{measure}_std"] = cell.std.get(measure)
                row[f"paper_{measure}"] = cell.paper_beside.get(measure)
            row |= {"seeds": " ".join(map(str, cell.by_seed)), "complete": cell.complete}
            row["gaps"] = "; ".join(cell.gaps)
            row["differs_from_paper"] = "; ".join(cell.differences)
            rows.append(row)
        return rows

    def gain_rows(self) -> list[dict[str, Any]]:
        """A row for each comparison of two arms or with a baseline, and measure."""
        return [
            self._names(gain.method)
            | {"comparison": gain.comparison, "over": gain.baseline.label, "measure": measure}
            | asdict(effect)
            | {"p_holm": gain.adjusted[measure], "verdict": gain.verdict(measure)}
            | {"differs": "; ".join(gain.differences)}
            for gain in (*self.gains, *self.baselines)
            for measure, effect in gain.effects.items()
        ]

    def values(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "protocol": self.result.protocol.name,
            "source": self.result.source,
            "averaged": list(self.result.averaged),
            "common": common_settings(self.result.runs),
            "entries": self.cell_rows(),
            "gains": self.gain_rows(),
            "notes": self.notes,
        }

    def _names(self, method: MethodRow) -> dict[str, Any]:
        names = {"protocol": self.result.protocol.name, "source": self.result.source or ""}
        return names | {"method": method.label, "learner": method.learner, "arm": method.arm}


def _number_text(cell: Cell, measure: str) -> str:
    """82.49 ± 0.31, without the deviation of a single seed, or a dash."""
    if measure not in cell.mean:
        return "-"
    deviation = f" ± {cell.std[measure]:.2f}" if cell.std else ""
    return f"{cell.mean[measure]:.2f}{deviation}"


def _paper_text(table: Table, cell: Cell) -> str:
    """The paper's numbers if they are comparable, else a mark with the reasons."""
    if cell.paper is None or not cell.mean:
        return ""
    if cell.paper_beside:
        return " / ".join(f"{number:.2f}" for number in cell.paper.values())
    reasons = [f"not the paper's setting: {text}" for text in cell.differences]
    return DIFFERS + table.footnote_mark(reasons)


def rows_to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV with every column that one of them has; nothing for no rows."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [["" if (v := row.get(key)) is None else str(v) for key in columns] for row in rows]
    return Table(columns, cells).to_csv() if rows else ""
