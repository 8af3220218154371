"""Tables for programs: CSV and plain values for JSON."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from ipl.bench.protocols.registry import all_measures
from ipl.bench.tables.cells import Cell
from ipl.bench.tables.methods import Method
from ipl.bench.tables.result_table import ResultTable


def as_csv(tables: Sequence[ResultTable]) -> str:
    """Returns one line per method and dataset, or average; numbers in %, in full precision."""
    rows = []
    for table in tables:
        for entry in table.entries:
            row = _names(table, entry.arm) | {"dataset": entry.dataset}
            for measure in all_measures():
                number = entry.numbers.get(measure)
                row[measure] = number.mean if number else None
                row[f"{measure}_std"] = number.std if number else None
                row[f"paper_{measure}"] = _paper(entry).get(measure)
            row["seeds"] = " ".join(map(str, entry.seeds))
            row["gaps"] = "; ".join(entry.gaps)
            row["differs_from_paper"] = "; ".join(entry.differs)
            rows.append(row)
    return _lines(rows)


def gains_as_csv(tables: Sequence[ResultTable]) -> str:
    """Returns one line per row with words and measure: what words brought over none."""
    rows = [
        _names(table, gain.arm) | {"over": gain.over.label, "measure": measure} | asdict(test)
        for table in tables
        for gain in table.gains
        for measure, test in gain.tests.items()
    ]
    return _lines(rows)


def as_values(tables: Sequence[ResultTable], warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Returns everything in the tables as plain values; numbers in %, in full precision."""
    return {"unit": "%", "warnings": list(warnings), "tables": [_values(t) for t in tables]}


def _values(table: ResultTable) -> dict[str, Any]:
    return {
        "protocol": table.protocol,
        "source": table.source,
        "averaged": list(table.averaged),
        "common": table.common,
        "entries": [_entry(entry) for entry in table.entries],
        "gains": [
            {
                "method": gain.arm.label,
                "over": gain.over.label,
                "differs": list(gain.differs),
                "measures": {measure: asdict(test) for measure, test in gain.tests.items()},
            }
            for gain in table.gains
        ],
        "notes": list(table.notes),
    }


def _entry(entry: Cell) -> dict[str, Any]:
    return {
        "dataset": entry.dataset,
        "method": entry.arm.label,
        "learner": entry.arm.learner,
        "with_words": entry.arm.with_words,
        "varied": entry.arm.varied,
        "numbers": {measure: asdict(number) for measure, number in entry.numbers.items()},
        "seeds": list(entry.seeds),
        "gaps": list(entry.gaps),
        "paper": _paper(entry) or None,
        "differs_from_paper": list(entry.differs),
    }


def _paper(entry: Cell) -> dict[str, float]:
    return entry.paper if entry.paper and entry.comparable else {}


def _names(table: ResultTable, arm: Method) -> dict[str, Any]:
    return {"protocol": table.protocol, "source": table.source or "", "method": arm.label}


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
