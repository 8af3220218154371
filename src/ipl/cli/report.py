"""`ipl report RUN...`: what a saved prompt has learnt, or several side by side."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.text import Text

from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, echo, on_interrupt, print_json
from ipl.display.document import Document
from ipl.display.page import as_html
from ipl.explain.report import make_report, report_values
from ipl.explain.several_runs import compare_runs
from ipl.support.errors import ConfigError
from ipl.support.files import write_json, write_text
from ipl.support.hub import is_on_hub
from ipl.support.progress import Reporter


def report(
    runs: list[Path] = typer.Argument(
        metavar="RUN...",
        help="A folder that `ipl fit` saved, or owner/name on the hub; several are compared.",
    ),
    data: Path | None = typer.Option(
        None,
        "--data",
        help="The data it was trained on, or other labelled images; without it, all that needs "
        "images is left out.",
    ),
    save_to: Path | None = typer.Option(
        None,
        "--out",
        help="The file to write (default: RUN-report.html, several: ipl-comparison.html); its "
        "ending .html, .htm or .json is the format.",
    ),
    resamples: int = typer.Option(
        5,
        "--resamples",
        min=0,
        help="How often to choose words again for other images; 0: never.",
    ),
    words_file: Path | None = common.WORDS_FILE,
    backbone: str | None = common.MOVED_BACKBONE,
    device: str = common.DEVICE,
    overwrite: bool = common.OVERWRITE,
    no_cache: bool = common.NO_CACHE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Report what a saved prompt has learnt, or compare several on one page."""
    run, several_runs = runs[0], len(runs) > 1
    target = save_to or (Path("ipl-comparison.html") if several_runs else default_target(run))
    if target.suffix.lower() not in (".html", ".htm", ".json"):
        raise ConfigError(f"--out is {target}; its name must end in .html, .htm or .json.")
    if not as_json:  # then nothing is written
        check_output_file(target, overwrite)
    reporter = Reporter(quiet=quiet)
    with on_interrupt(lambda: "nothing was written."):
        if several_runs:
            document = compare_runs(runs, data, device, not no_cache, reporter)
        else:
            document = make_report(
                run, data, backbone, device, words_file, not no_cache, reporter, resamples
            )
        for note in document.warnings:
            reporter.warn(note)
        if not as_json:
            write_document(target, document)
    if as_json:
        print_json(report_values(document))
        return
    terminal = console()
    if several_runs and document.table is not None:
        terminal.print(document.table.to_terminal())
        echo("\n".join(document.lead))
    for question, answer in document.answers.items():
        terminal.print(Text.assemble((question, "bold"), " ", answer))
    for section in document.sections:
        if section.anchor == "missing":
            echo(f"Left out: {section.summary}")
    echo(f"\nWritten:  {target}")


def default_target(run: Path) -> Path:
    """RUN-report.html beside the run, whose folder has only its own files.

    For a run on the hub it is owner-name-report.html in the current folder.
    """
    if is_on_hub(str(run)):
        return Path(f"{run.parent.name}-{run.name}-report.html")
    return run.parent / f"{run.resolve().name}-report.html"


def write_document(target: Path, document: Document) -> None:
    """Writes a document in the format of the file's name."""
    if target.suffix.lower() == ".json":
        write_json(target, report_values(document))
    else:
        write_text(target, as_html(document))
