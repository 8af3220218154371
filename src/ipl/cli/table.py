"""`ipl table DIR`: the results of a bench, with the paper's numbers beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ipl.bench.records import RunRecord, count_damaged, read_records
from ipl.bench.tables.cost_table import (
    COST,
    CostRow,
    cost_rows,
    cost_table,
    cost_to_csv,
    cost_to_values,
    is_profiled,
)
from ipl.bench.tables.figures import Drawing, draw_figures
from ipl.bench.tables.result_table import (
    ResultTable,
    build_tables,
    display_tables,
    gains_to_csv,
    results_to_csv,
    results_to_values,
    table_verdicts,
)
from ipl.bench.tables.results_page import results_document
from ipl.bench.tables.words_table import (
    WordSearch,
    find_word_searches,
    words_tables,
    words_to_csv,
    words_to_values,
)
from ipl.cli.output import check_output_file, console
from ipl.cli.shared_options import JSON, OVERWRITE, QUIET
from ipl.display.page import as_html
from ipl.display.table import Table, tables_to_latex, tables_to_markdown, tables_to_terminal
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import write_bytes, write_text
from ipl.support.progress import Reporter

SUFFIXES = {".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json", ".txt": "text"}
FORMATS = tuple(SUFFIXES.values())
ENDINGS = tuple(suffix for suffix, name in SUFFIXES.items() if name != "text")  # of files
# What is written to DIR/tables, by the options that write it.
WRITTEN = {
    "without --words": (*(f"table{ending}" for ending in ENDINGS), "gains.csv"),
    "--cost": ("cost.csv",),
    "--words": tuple(f"words{ending}" for ending in ENDINGS),
    "--page": ("index.html", "figures/*"),
}


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
    cost: bool = typer.Option(
        False, "--cost", help="Add a table of time and memory (profiled runs always have it)."
    ),
    words: bool = typer.Option(
        False,
        "--words",
        help="In place of the results, show the chosen words, how often each came back, and their "
        "overlap.",
    ),
    page: bool = typer.Option(
        False, "--page", help="Write a page with all tables and figures as well."
    ),
    overwrite: bool = OVERWRITE,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Show the results of a bench; write them as files to DIR/tables. Several DIRs are only shown.

    A damaged record is named and left out; the exit code is then 2.
    """
    if words and cost:
        raise ConfigError("--words and --cost contradict each other; use one of them.")
    reporter = Reporter(quiet=quiet)
    if as_json:
        style = "json"
    style = _style(style, save_to, "--json" if as_json else f"--format {style}")
    if page and (style or words):
        raise ConfigError(
            "--page adds a page to DIR/tables; leave out --format, --out, --json and --words."
        )
    if len(folders) > 1 and style is None:
        if page:
            raise ConfigError("--page adds a page to DIR/tables; it takes a single DIR.")
        style = "text"  # the tables of the first folder are of that folder alone
    if save_to is not None:
        check_output_file(save_to, overwrite or _is_own_file(save_to, folders[0] / "tables"))
    runs, warnings = read_records(folders)
    for warning in warnings:
        reporter.warn(warning)
    _show(runs, warnings, folders, style, save_to, cost, words, page, reporter)
    if damaged := count_damaged(warnings):
        which = (
            "1 record is damaged and" if damaged == 1 else f"{damaged:,} records are damaged and"
        )
        raise DataError(f"{which} left out of the tables; see the warnings.")


def _show(
    runs: list[RunRecord],
    warnings: list[str],
    folders: list[Path],
    style: str | None,
    save_to: Path | None,
    cost: bool,
    words: bool,
    page: bool,
    reporter: Reporter,
) -> None:
    """Prints the tables, and writes them as files unless one format was asked for."""
    results = build_tables(runs)
    costs = cost_rows(results)
    if not (cost or is_profiled(costs)):
        costs = []
    searches = find_word_searches(runs)
    sections = _sections(results, costs)
    if words:
        content = _words_content(searches, warnings)
    else:
        content = _results_content(results, costs, sections, warnings)
    if save_to is not None:
        assert style is not None
        write_text(save_to, content.text(style))
        reporter.say(f"Saved:  {save_to}")
        return
    if style not in (None, "text"):
        print(content.text(str(style)), end="")
        return
    console().print(tables_to_terminal(content.tables))
    if style is not None:
        return
    target = folders[0] / "tables"
    files = {f"{content.name}{end}": content.text(SUFFIXES[end]) for end in ENDINGS}
    if not words:
        files["gains.csv"] = gains_to_csv(results)
        files |= {"cost.csv": cost_to_csv(costs)} if costs else {}
    for name, text in files.items():
        write_text(target / name, text)
    written = {target / name for name in files}
    if page:
        if searches:
            sections["Words"] = words_tables(searches)
        title = ", ".join(folder.resolve().name for folder in folders)

        drawings = draw_figures(results)
        written |= _write_page(target, title, runs, warnings, results, sections, drawings)
    earlier = _earlier_files(target, written)
    hint = "" if page or words or earlier else "  (--page adds a page with figures)"
    reporter.say(f"Saved:  {target}{hint}")
    if page:
        reporter.say(f"Page:   {target / 'index.html'}")
    if earlier:
        reporter.say(f"Of an earlier table, and not written anew: {earlier}.")


def _earlier_files(target: Path, written: set[Path]) -> str:
    """Returns the files of earlier calls, with the options that write them anew; empty if none."""
    texts = []
    for options, patterns in WRITTEN.items():
        files = sorted({path for pattern in patterns for path in target.glob(pattern)} - written)
        names = dict.fromkeys(path.relative_to(target).parts[0] for path in files)
        texts += [f"{', '.join(names)} ({options})"] if names else []
    return "; ".join(texts)


def _write_page(
    target: Path,
    name: str,
    runs: list[RunRecord],
    warnings: list[str],
    results: list[ResultTable],
    sections: dict[str, list[Table]],
    drawings: list[Drawing],
) -> set[Path]:
    """Writes the page, and each of its figures as files; returns all of them."""
    figures = {
        target / "figures" / f"{drawing.name}.{kind}": image
        for drawing in drawings
        for kind, image in drawing.files.items()
    }
    for path, image in figures.items():
        write_bytes(path, image)
    verdicts = table_verdicts(results)
    document = results_document(name, runs, sections, drawings, warnings, verdicts)
    write_text(target / "index.html", as_html(document))
    return {target / "index.html", *figures}


@dataclass(frozen=True)
class TableContent:
    """What is shown or written: tables for people, and the same for programs."""

    name: str  # of its files
    tables: list[Table]
    csv: str
    values: dict[str, Any]

    def text(self, style: str) -> str:
        """Returns the content in one of `FORMATS`."""
        if style == "csv":
            return self.csv
        if style == "json":
            return json.dumps(self.values, indent=2, ensure_ascii=False) + "\n"
        if style == "latex":
            return tables_to_latex(self.tables)
        if style == "md":
            return tables_to_markdown(self.tables)
        console = Console(width=240, color_system=None, highlight=False, emoji=False)
        with console.capture() as captured:
            console.print(tables_to_terminal(self.tables))
        return captured.get()


def _results_content(
    results: list[ResultTable],
    costs: list[CostRow],
    sections: dict[str, list[Table]],
    warnings: list[str],
) -> TableContent:
    tables = [shown for tables in sections.values() for shown in tables]
    values = results_to_values(results, warnings)
    values |= {"cost": cost_to_values(costs)} if costs else {}
    return TableContent("table", tables, results_to_csv(results), values)


def _words_content(searches: list[WordSearch], warnings: list[str]) -> TableContent:
    if not searches:
        raise DataError(
            "No finished run chose words; --words needs runs with the arm words or words-only."
        )
    values = {"warnings": warnings, **words_to_values(searches)}
    return TableContent("words", words_tables(searches), words_to_csv(searches), values)


def _is_own_file(path: Path, target: Path) -> bool:
    """Returns whether a file is one that this command writes to DIR/tables without --out."""
    names = {name for patterns in WRITTEN.values() for name in patterns}
    return path.name in names and path.parent.resolve() == target.resolve()


def _style(style: str | None, save_to: Path | None, option: str) -> str | None:
    style = "latex" if style == "tex" else style
    if style is not None and style not in FORMATS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(FORMATS)}.")
    if save_to is not None:
        ending = SUFFIXES.get(save_to.suffix.lower())
        if style is not None and ending not in (None, style):
            raise ConfigError(
                f"--out is {save_to}, but {option} asks for another format; leave one of them out, "
                "or change the ending."
            )
        style = style or ending
        if style is None:
            raise ConfigError(
                f"--out is {save_to}; without --format its name must end in {', '.join(SUFFIXES)}."
            )
    return style


def _sections(results: list[ResultTable], costs: list[CostRow]) -> dict[str, list[Table]]:
    """Returns the tables by the title of their section."""
    sections = {result.title: display_tables([result]) for result in results}
    return sections | ({COST: [cost_table(costs)]} if costs else {})
