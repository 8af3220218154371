"""Results built from made-up records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl.bench.records import read_records
from ipl.bench.tables.results import Cell, Result, build_results
from tests.helpers.records import write_records


def results_of(folder: Path, *records: dict[str, Any]) -> list[Result]:
    """The results of these records, which are written to a folder."""
    return build_results(read_records([write_records(folder, *records)])[0])


def result_of(folder: Path, *records: dict[str, Any]) -> Result:
    """The only result of these records."""
    (result,) = results_of(folder, *records)
    return result


def find_cell(result: Result, dataset: str, label: str) -> Cell:
    """The cell of a method on a dataset, or of its average."""
    (cell,) = [cell for cell in result.of(dataset) if cell.method.label == label]
    return cell
