"""Result tables built from made-up records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl.bench.records import read_records
from ipl.bench.tables.cells import Cell
from ipl.bench.tables.result_table import ResultTable, build_tables
from tests.helpers.records import write_records


def result_tables(folder: Path, *records: dict[str, Any]) -> list[ResultTable]:
    """Returns the tables of these records, which are written to a folder."""
    return build_tables(read_records([write_records(folder, *records)])[0])


def result_table(folder: Path, *records: dict[str, Any]) -> ResultTable:
    """Returns the only table of these records."""
    (table,) = result_tables(folder, *records)
    return table


def find_cell(table: ResultTable, dataset: str, label: str) -> Cell:
    """Returns the cell of a method on a dataset, or of its average."""
    (cell,) = [cell for cell in table.of(dataset) if cell.method.label == label]
    return cell
