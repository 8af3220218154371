"""`ipl table DIR`: the results of a bench, with the paper's numbers beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ipl.cli.output import console
from ipl.cli.shared_options import JSON, QUIET
from ipl.support.errors import ConfigError

if TYPE_CHECKING:
    from ipl.bench.tables.result_table import ResultTable

SUFFIXES = {".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json", ".txt": "text"}
FORMATS = tuple(SUFFIXES.values())


def table(
    folders: list[Path] = typer.Argument(
        metavar="DIR", help="What `ipl bench --out DIR` wrote; several are shown together."
    ),
    style: str | None = typer.Option(
        None, "--format", help="Print md, csv, latex, json or text, and write no files."
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="Write one file; --format or its ending says how."
    ),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Show the results of a bench; write Markdown, CSV, LaTeX and JSON to DIR/tables."""
    from ipl.bench.records import read_records
    from ipl.bench.tables.result_table import build_tables, display_tables, gains_to_csv
    from ipl.display.table import tables_to_terminal
    from ipl.support.files import write_text
    from ipl.support.progress import Reporter

    reporter = Reporter(quiet=quiet)
    style = _style("json" if as_json else style, save_to)
    runs, warnings = read_records(folders)
    for warning in warnings:
        reporter.warn(warning)
    results = build_tables(runs)
    if save_to is not None:
        assert style is not None
        write_text(save_to, _text(style, results, warnings))
        reporter.say(f"Saved:  {save_to}")
        return
    if style not in (None, "text"):
        print(_text(str(style), results, warnings), end="")
        return
    console().print(tables_to_terminal(display_tables(results)))
    if style is None:
        target = folders[0] / "tables"
        for suffix, name in SUFFIXES.items():
            if name != "text":
                write_text(target / f"table{suffix}", _text(name, results, warnings))
        write_text(target / "gains.csv", gains_to_csv(results))
        reporter.say(f"Saved:  {target}")


def _style(style: str | None, save_to: Path | None) -> str | None:
    style = "latex" if style == "tex" else style
    if style is not None and style not in FORMATS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(FORMATS)}.")
    if style is None and save_to is not None:
        style = SUFFIXES.get(save_to.suffix.lower())
        if style is None:
            raise ConfigError(
                f"--out is {save_to}; without --format its name must end in {', '.join(SUFFIXES)}."
            )
    return style


def _text(style: str, results: list[ResultTable], warnings: list[str]) -> str:
    from ipl.bench.tables.result_table import display_tables, results_to_csv, results_to_values
    from ipl.display.table import tables_to_latex, tables_to_markdown, tables_to_terminal

    if style == "csv":
        return results_to_csv(results)
    if style == "json":
        values = results_to_values(results, warnings)
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    tables = display_tables(results)
    if style == "latex":
        return tables_to_latex(tables)
    if style == "md":
        return tables_to_markdown(tables)
    from rich.console import Console

    console = Console(width=240, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(tables_to_terminal(tables))
    return captured.get()
