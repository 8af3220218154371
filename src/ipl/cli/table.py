"""`ipl table DIR`: the results of a bench, with the paper's numbers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.bench.records import RunRecord, read_records
from ipl.bench.tables.cost_table import cost_rows, cost_table, is_profiled
from ipl.bench.tables.paper_tables import as_published, paper_figures, paper_tables
from ipl.bench.tables.result_table import ResultTables, rows_to_csv
from ipl.bench.tables.results import build_results
from ipl.bench.tables.words_table import (
    find_word_searches,
    overlap_table,
    search_rows,
    token_rows,
    words_table,
)
from ipl.cli.output import console, echo
from ipl.cli.shared_options import JSON, QUIET
from ipl.display.formatting import several
from ipl.display.table import Table, tables_to_latex, tables_to_markdown, tables_to_terminal
from ipl.support.errors import ConfigError, DataError, IplError
from ipl.support.files import to_json, write_bytes, write_text
from ipl.support.progress import Reporter

FORMATS = {"md": ".md", "csv": ".csv", "latex": ".tex", "json": ".json"}


def table(
    folders: list[Path] = typer.Argument(
        metavar="DIR", help="What `ipl bench --out DIR` wrote; several are shown together."
    ),
    paper: bool = typer.Option(
        False, "--paper", help="Write every table in the shape of the paper's, and all figures."
    ),
    words: bool = typer.Option(
        False,
        "--words",
        help="In place of the results, show the chosen words, their gains and their overlap.",
    ),
    cost: bool = typer.Option(
        False, "--cost", help="Add a table of time and memory (profiled runs always have it)."
    ),
    style: str | None = typer.Option(
        None, "--format", help="Print md, csv, latex or json, and write no files."
    ),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Show the results of a bench; write them as files to DIR/tables. Several DIRs are only shown.

    A damaged record is named and left out; the exit code is then 2.
    """
    style = "json" if as_json else style
    if style is not None and style not in FORMATS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(FORMATS)}.")
    if paper + words + cost > 1:
        raise ConfigError("--paper, --words and --cost exclude each other; use one of them.")
    if paper and (style or len(folders) > 1):
        raise ConfigError(
            "--paper writes files to DIR/tables/paper of a single DIR; leave out --format and "
            "--json."
        )
    reporter = Reporter(quiet=quiet)
    runs, warnings = read_records(folders)
    for warning in warnings:
        reporter.warn(warning)
    if paper:
        tables, files = _paper(runs, folders[0], reporter)
    else:
        tables, files = _words(runs, warnings) if words else _results(runs, warnings, cost)
    if style is not None:
        echo(files[f"{'words' if words else 'table'}{FORMATS[style]}"], end="")
    else:
        console().print(tables_to_terminal(tables))
        if len(folders) == 1:  # of several, none has the tables of all
            target = folders[0] / "tables" / ("paper" if paper else "")
            for name, text in files.items():
                write_text(target / name, text)
            for name, plot in (paper_figures(runs) if paper else {}).items():
                for kind, image in plot.items():
                    write_bytes(target / f"{name}.{kind}", image)
            reporter.say(f"Saved:  {target}")
    if warnings:
        damaged = several(len(warnings), "damaged record")
        raise DataError(f"{damaged} left out of the tables; see the warnings.")


Shown = tuple[list[Table], dict[str, str]]  # tables, and the texts of their files by name


def _results(runs: list[RunRecord], warnings: list[str], cost: bool) -> Shown:
    results = [ResultTables(result) for result in build_results(runs)]
    tables = [table for one in results for table in one.tables()]
    values = {"unit": "%", "warnings": warnings, "tables": [one.values() for one in results]}
    more = {"gains.csv": rows_to_csv([row for one in results for row in one.gain_rows()])}
    costs = cost_rows([one.result for one in results])
    if cost or is_profiled(costs):
        tables.append(cost_table(costs))
        values["cost"] = costs
        more["cost.csv"] = rows_to_csv(costs)
    rows = [row for one in results for row in one.cell_rows()]
    files = _files("table", tables, rows) | {"table.json": to_json(values) + "\n"}
    return tables, files | more


def _words(runs: list[RunRecord], warnings: list[str]) -> Shown:
    searches = find_word_searches(runs)
    if not searches:
        raise DataError(
            "No finished run chose words; --words needs runs with the arm words or words-only."
        )
    rows = search_rows(searches)
    overlap = overlap_table(searches)
    tables = [words_table(rows), *([overlap] if overlap else [])]
    values = {"warnings": warnings, "searches": rows}
    return tables, _files("words", tables, rows) | {"words.json": to_json(values) + "\n"}


def _paper(runs: list[RunRecord], folder: Path, reporter: Reporter) -> Shown:
    """The tables in the shape of the paper's."""
    published = as_published(runs)
    tables: list[Table] = []
    files: dict[str, str] = {}
    for one in paper_tables(runs):
        tables += one.tables()
        files |= _files(one.name, one.tables(), one.values())
    costs = cost_rows(build_results(published))
    tables.append(cost_table(costs))
    files |= _files("cost", tables[-1:], costs)
    words = search_rows(find_word_searches(published))
    try:
        words += token_rows(folder, published)
    except IplError as error:  # the backbone may be out of reach
        reporter.warn(f"There are no nearest tokens: {error}")
    if words:
        tables.append(words_table(words))
        files |= _files("words", tables[-1:], words)
    return tables, files


def _files(name: str, tables: list[Table], rows: list[dict[str, Any]]) -> dict[str, str]:
    """The tables for people, and their rows for programs."""
    return {
        f"{name}.md": tables_to_markdown(tables),
        f"{name}.csv": rows_to_csv(rows),
        f"{name}.tex": tables_to_latex(tables),
    }
