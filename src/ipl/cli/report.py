"""`ipl report RUN`: an account of what a saved prompt has learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.text import Text

from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, on_interrupt, print_json
from ipl.display.document import Document
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.report import ReportSettings, analyse_run, check_arguments, report_document
from ipl.explain.report_values import report_values
from ipl.loggers import check_loggers, log_run
from ipl.support.errors import ConfigError
from ipl.support.files import write_json, write_text
from ipl.support.hub import is_on_hub
from ipl.support.progress import Reporter

FORMATS = ("html", "md", "json")
FORMAT = typer.Option(
    None, "--format", help="html (one file), md or json (default: as --out ends, else html)."
)
IMAGES = typer.Option(2000, "--images", help="The largest number of held-out images to use.")


def report(
    run: Path = common.RUN,
    data: Path | None = typer.Option(
        None,
        "--data",
        help="The data it was trained on, or other labelled images; without it, all that needs "
        "images is left out.",
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="The file to write (default: RUN-report.html, .md or .json)."
    ),
    kind: str | None = FORMAT,
    plain: str | None = typer.Option(
        None, "--plain", help="Compare with the learner without words: train, or a saved run."
    ),
    resamples: int = typer.Option(
        5, "--resamples", help="How often to choose words again for other shots; 0: never."
    ),
    images: int = IMAGES,
    words_file: Path | None = typer.Option(
        None, "--words-file", help="The list of words that the run chose from, if it had its own."
    ),
    backbone: str | None = typer.Option(
        None, help="Where the backbone's weights are now (default: as saved)."
    ),
    device: str = common.DEVICE,
    overwrite: bool = common.OVERWRITE,
    no_cache: bool = common.NO_CACHE,
    strict: bool = common.STRICT,
    log_to: list[str] = common.LOG_TO,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Report what a saved prompt has learnt: its words, what they do, whether to believe it."""
    kind = choose_format(kind, save_to)
    target = save_to or default_target(run, kind)

    check_loggers(log_to)
    reporter = Reporter(quiet=quiet)
    settings = ReportSettings(resamples, images, plain, strict)
    check_arguments(run, data, settings, words_file)
    if not as_json:  # then nothing is written
        check_output_file(target, overwrite)
    with on_interrupt(lambda: "nothing was written."):
        analysis = analyse_run(
            run, data, settings, backbone, device, words_file, not no_cache, reporter
        )
        for note in analysis.notes:
            reporter.warn(note)
        values = report_values(analysis)
        if not as_json or log_to:
            document = report_document(analysis)
            if not as_json:
                write_page(target, kind, document, values)
            log_report(log_to, run, document, reporter)
    if as_json:
        print_json(values)
        return
    terminal = console()
    for each in document.answers:
        terminal.print(Text.assemble((each.question, "bold"), " ", each.answer))
    terminal.print()
    for missing in analysis.missing:
        terminal.print(f"Left out: {missing.part}. {missing.why}", markup=False, soft_wrap=True)
    terminal.print(f"Written:  {target}", markup=False, soft_wrap=True)


def log_report(log_to: Sequence[str], run: Path, document: Document, reporter: Reporter) -> None:
    """Logs a report as a page and as text."""
    if not log_to:
        return

    with log_run(log_to, f"{run.resolve().name}-report", {"run": str(run)}, reporter) as log:
        log.log_text("result/report", as_markdown(document))
        log.log_file("report.html", as_html(document).encode())


def default_target(run: Path, kind: str) -> Path:
    """Returns RUN-report.KIND beside the run: the folder of a run has only its own files.

    For a run on the hub it is owner-name-report.KIND in the current folder.
    """
    if is_on_hub(str(run)):
        return Path(f"{run.parent.name}-{run.name}-report.{kind}")
    return run.parent / f"{run.resolve().name}-report.{kind}"


def choose_format(kind: str | None, save_to: Path | None) -> str:
    """Returns the format that was asked for or, if none was, the one that the file's name has."""
    ending = save_to.suffix.removeprefix(".").lower() if save_to is not None else ""
    ending = {"htm": "html", "markdown": "md"}.get(ending, ending)
    if kind is None:
        if ending and ending not in FORMATS:
            raise ConfigError(
                f"--out is {save_to}; without --format its name must end in .html, .md or .json."
            )
        return ending or FORMATS[0]
    if kind not in FORMATS:
        raise ConfigError(f"format is {kind!r}; allowed are {', '.join(FORMATS)}.")
    if ending in FORMATS and ending != kind:
        raise ConfigError(f"--format is {kind}, but --out is {save_to}; leave one of them out.")
    return kind


def write_page(target: Path, kind: str, document: Document, values: object) -> None:
    """Writes a report in one of its formats."""
    if kind == "json":
        write_json(target, values)
    else:
        write_text(target, as_html(document) if kind == "html" else as_markdown(document))
