"""`ipl compare RUN RUN...`: saved prompts side by side."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, on_interrupt, print_json
from ipl.cli.report import FORMAT, IMAGES, choose_format, write_page
from ipl.explain.compared_runs import (
    compare_runs,
    comparison_document,
    comparison_values,
    read_runs,
)
from ipl.support.progress import Reporter


def compare(
    runs: list[Path] = typer.Argument(
        metavar="RUN...", help="Folders that `ipl fit` saved, or owner/name on the hub."
    ),
    data: Path | None = typer.Option(
        None, "--data", help="Images to score all runs on (default: accuracies as saved)."
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="The file to write (default: ipl-comparison.html, .md or .json)."
    ),
    kind: str | None = FORMAT,
    images: int = IMAGES,
    device: str = common.DEVICE,
    overwrite: bool = common.OVERWRITE,
    no_cache: bool = common.NO_CACHE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Compare saved prompts on one page: words, accuracies, settings that differ."""
    kind = choose_format(kind, save_to)
    target = save_to or Path(f"ipl-comparison.{kind}")

    reporter = Reporter(quiet=quiet)
    read_runs(runs, data, images)
    if not as_json:  # then nothing is written
        check_output_file(target, overwrite)
    with on_interrupt(lambda: "nothing was written."):
        compared = compare_runs(runs, data, images, device, not no_cache, reporter)
        for note in compared.notes:
            reporter.warn(note)
        values = comparison_values(compared)
        if not as_json:
            write_page(target, kind, comparison_document(compared), values)
    if as_json:
        print_json(values)
        return
    terminal = console()
    terminal.print(compared.accuracies().to_terminal())
    terminal.print("\n".join((*compared.verdict, *compared.about_accuracies)), markup=False)
    terminal.print(f"\nWritten: {target}", markup=False, soft_wrap=True)
