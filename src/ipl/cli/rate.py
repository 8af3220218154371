"""`ipl rate RUN...`: a blind sheet of words for people to rate, and what filled sheets say."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, echo, print_json
from ipl.explain.ratings import key_of, read_sheets, word_sets, write_sheet
from ipl.support.progress import Reporter


def rate(
    paths: list[Path] = typer.Argument(
        metavar="RUN...", help="Runs with words, and their learners without; or filled sheets."
    ),
    read: bool = typer.Option(False, "--read", help="Read filled sheets, one of each rater."),
    save_to: Path = typer.Option(
        Path("sheet.csv"), "--out", help="The sheet to write; its key is SHEET.key.json beside it."
    ),
    words_file: Path | None = common.WORDS_FILE,
    backbone: str | None = common.MOVED_BACKBONE,
    overwrite: bool = common.OVERWRITE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Write a sheet on which people rate words blindly from 1 to 5, or read filled ones."""
    if read:
        ratings = read_sheets(paths)
        if as_json:
            print_json(vars(ratings))
        else:
            console().print(ratings.table().to_terminal())
        return
    check_output_file(save_to, overwrite)
    check_output_file(key_of(save_to), overwrite)
    reporter = Reporter(quiet=quiet)
    rows = write_sheet(save_to, word_sets(paths, words_file, backbone, reporter))
    if as_json:
        print_json({"sheet": str(save_to), "key": str(key_of(save_to)), "rows": rows})
        return
    echo(
        f"Written: {save_to} ({rows} rows) and its key, {key_of(save_to)}.\n"
        "Give each rater a copy of the sheet, and nobody the key. They rate how relevant the words "
        "of a row are to images of its dataset, from 1 (not at all) to 5 (very)."
    )
