"""`ipl predict RUN IMAGES...`: classify images with a saved prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import cast

import typer

from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, on_interrupt, print_json
from ipl.cli.saved_classifier import load_classifier
from ipl.display.formatting import first_few
from ipl.inference.image_paths import find_images, read_paths
from ipl.inference.stream import Prediction, predict_stream
from ipl.inference.writers import WRITERS, Writer, one_line
from ipl.saving.run_folder import find_run, read_config
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import replace_file
from ipl.support.progress import Reporter

CHUNK = 65_536  # bytes that are read from standard input at a time


def predict(
    run: str = common.RUN,
    images: list[str] = typer.Argument(
        metavar="IMAGES",
        help="Image files, folders or patterns; - reads paths from standard input.",
    ),
    classes: str | None = common.CLASSES,
    top: int = typer.Option(5, min=1, help="Classes to show per image."),
    threshold: float = typer.Option(
        0.0, min=0.0, max=1.0, help="Leave out classes less probable than this."
    ),
    max_pixels: int = typer.Option(
        100_000_000, min=1, help="Skip images that would have more pixels in memory."
    ),
    style: str | None = typer.Option(
        None,
        "--format",
        help="table, csv or jsonl (default: by the ending of --out, else table).",
    ),
    save_to: Path | None = typer.Option(None, "--out", help="Write to this file."),
    overwrite: bool = common.OVERWRITE,
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    device: str = common.DEVICE,
    strict: bool = typer.Option(False, "--strict", help="Fail on a file that is not an image."),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Classify images with a saved prompt, into its classes or any others."""
    reporter = Reporter(quiet=quiet)
    output_format = _output_format(style, save_to)
    if as_json and (output_format != "table" or save_to is not None):
        raise ConfigError("--json prints one object; it does not work with --format or --out.")
    if save_to is not None:
        check_output_file(save_to, overwrite)
    folder = find_run(run)
    read_config(folder)  # reports a wrong RUN before the images are looked for
    sources, total = _sources(images)
    tally = _Tally(reporter, strict)
    in_lines = save_to is None and not as_json

    with on_interrupt(lambda: tally.summary(in_lines)), _quiet_pipe():
        classifier = load_classifier(folder, classes, backbone, device, any_backbone)
        if classes is not None and classifier.untrained_classes:
            reporter.say(_about_untrained(classifier))
        predictions: list[Prediction] = []
        # On a terminal the lines themselves show the progress.
        progress = Reporter(quiet=True) if in_lines and sys.stdout.isatty() else reporter
        with (
            _open_writer(output_format, save_to) as writer,
            progress.task("Classifying images", total) as advance,
        ):
            for batch in predict_stream(classifier, sources, top, threshold, advance, max_pixels):
                tally.add(batch)
                if as_json:
                    predictions += batch
                else:
                    writer.write(batch)
            if not tally.readable:
                raise DataError("There is no image to classify.")
        if save_to is not None:
            reporter.say(f"Written: {save_to}")
    if as_json:
        readable = [each.as_dict() for each in predictions if each.error is None]
        skipped = [f"{each.image}: {each.error}" for each in predictions if each.error is not None]
        head = {"run": run, "prompt": classifier.prompt_, "words": classifier.words_}
        print_json({**head, "predictions": readable, "skipped": skipped})


def _about_untrained(classifier: PromptClassifier) -> str:
    """What is known about classes that a prompt was not trained on."""
    head = ", and its head is not used" if classifier.result_.head is not None else ""
    shown = " Where zero-shot CLIP disagrees, its answer stands beside."
    return (
        f"Not trained on {first_few(classifier.untrained_classes)}: how good this prompt "
        f"({classifier.config.learner}) is for them is not known{head}; `ipl evaluate` with "
        f"labelled images tells.{'' if classifier.learner_.prompts_images else shown}"
    )


def _output_format(style: str | None, save_to: Path | None) -> str:
    """The format of --format, else the one that the ending of --out names."""
    if style is None:
        ending = "" if save_to is None else save_to.suffix.lower().removeprefix(".")
        if ending not in ("", "txt", *WRITERS):
            raise ConfigError(
                f"--out ends in .{ending}, which is not one of the formats; it may end in .csv, "
                ".jsonl or .txt, or --format says what is written."
            )
        return ending if ending in WRITERS else "table"
    if style not in WRITERS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(WRITERS)}.")
    return style


class _Tally:
    """Counts images that were classified, and warns of those that cannot be read."""

    def __init__(self, reporter: Reporter, strict: bool) -> None:
        self.reporter, self.strict, self.readable = reporter, strict, 0

    def add(self, batch: Sequence[Prediction]) -> None:
        for each in batch:
            failed = f"{one_line(each.image)}: {each.error}"
            if each.error is None:
                self.readable += 1
            elif self.strict:
                raise DataError(f"Unreadable image: {failed}.")
            else:
                self.reporter.warn(f"skipped {failed}")

    def summary(self, in_lines: bool) -> str:
        """What had been written when Ctrl-C was pressed."""
        classified = f"{self.readable} images were classified."
        return classified if in_lines and self.readable else "nothing was written."


def _sources(images: list[str]) -> tuple[Iterable[Path], int | None]:
    """The images and their number, which is unknown for paths from standard input."""
    if "-" in images:
        if len(images) > 1:
            raise DataError("IMAGES has - and other paths; give paths on stdin or as arguments.")
        stream = cast(BufferedReader, sys.stdin.buffer)
        return read_paths(iter(lambda: stream.read1(CHUNK), b"")), None
    paths = find_images(images)
    return paths, len(paths)


@contextmanager
def _open_writer(output_format: str, save_to: Path | None) -> Iterator[Writer]:
    """A writer; a file at `save_to` appears when it is complete, or not at all."""

    if save_to is None:
        yield WRITERS[output_format](sys.stdout)
        return
    with replace_file(save_to) as work, open(work, "w", encoding="utf-8", newline="") as stream:
        yield WRITERS[output_format](stream)


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """Ends quietly, with exit code 1, when the reader of standard output closes it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError):  # otherwise Python complains once more as it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
