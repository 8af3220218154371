"""`ipl predict RUN IMAGES...`: classify images with a saved prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TextIO, cast

import typer
from rich.console import Console

from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, on_interrupt, print_json
from ipl.cli.shared_options import read_class_names
from ipl.inference.image_paths import find_images, read_paths
from ipl.inference.prediction_stream import Prediction, PredictionSpeed, Ranking, predict_stream
from ipl.inference.prediction_writers import (
    CsvWriter,
    JsonLinesWriter,
    ParquetWriter,
    PredictionWriter,
    TableWriter,
)
from ipl.saving.run_folder import find_run, read_config
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import replace_file
from ipl.support.progress import Reporter

FORMATS = ("table", "csv", "jsonl", "parquet")
ENOUGH_TO_TIME = 100  # images
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
        help="table, csv, jsonl or parquet (default: by the ending of --out, else table).",
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="Write to this file (parquet needs one)."
    ),
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
    if output_format == "parquet" and save_to is None:
        raise ConfigError("--format parquet needs a file to write to: --out FILE.")
    if as_json and (output_format != "table" or save_to is not None):
        raise ConfigError("--json prints one object; it does not work with --format or --out.")
    if save_to is not None:
        check_output_file(save_to, overwrite)
    folder = find_run(run)
    read_config(folder)  # reports a wrong RUN before the images are looked for
    names = read_class_names(classes) if classes is not None else None
    sources, total = _sources(images)
    tally = _Tally(reporter, strict)

    ranking = Ranking(top, threshold)
    with on_interrupt(lambda: tally.summary(save_to)), _quiet_pipe():
        classifier = PromptClassifier.from_pretrained(
            folder, backbone, device, any_backbone=any_backbone
        )
        if names is not None:
            classifier = classifier.with_classes(names)
        if as_json:
            predictions: list[Prediction] = []
            for batch in _run(classifier, sources, ranking, max_pixels, total, reporter, tally):
                predictions.extend(batch)
        else:
            with _open_writer(output_format, save_to) as writer:
                # On a terminal the lines themselves show the progress.
                on_terminal = save_to is None and sys.stdout.isatty()
                progress = Reporter(quiet=True) if on_terminal else reporter
                for batch in _run(classifier, sources, ranking, max_pixels, total, progress, tally):
                    writer.write(batch)
                    tally.written += len(batch)
                tally.check()
            tally.report_speed()
            if save_to is not None:
                reporter.say(f"Written: {save_to}")
    if as_json:
        tally.check()
        readable = [each.as_dict() for each in predictions if each.error is None]
        skipped = [f"{each.image}: {each.error}" for each in predictions if each.error is not None]
        head = {"run": run, "prompt": classifier.prompt_, "words": classifier.words_}
        print_json(
            {**head, "predictions": readable, "skipped": skipped, "speed": tally.speed.as_dict()}
        )


def _output_format(style: str | None, save_to: Path | None) -> str:
    """Returns the format of --format, else the one that the ending of --out names."""
    if style is None:
        ending = "" if save_to is None else save_to.suffix.lower().removeprefix(".")
        if ending not in ("", "txt", *FORMATS):
            raise ConfigError(
                f"--out ends in .{ending}, which is not one of the formats; it may end in .csv, "
                ".jsonl, .parquet or .txt, or --format says what is written."
            )
        return ending if ending in FORMATS else "table"
    if style not in FORMATS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(FORMATS)}.")
    return style


class _Tally:
    """Counts images that were classified, and warns of those that cannot be read."""

    def __init__(self, reporter: Reporter, strict: bool) -> None:
        self.reporter, self.strict = reporter, strict
        self.readable = self.written = 0
        self.pending: list[str] = []  # a single unreadable image is an error, not a warning too
        self.first_error: str | None = None
        self.speed = PredictionSpeed()

    def add(self, batch: list[Prediction]) -> None:
        """Counts a batch and warns of unreadable images; with `strict` they raise DataError."""
        for prediction in batch:
            if prediction.error is None:
                self.readable += 1
                continue
            message = f"{prediction.printable_image}: {prediction.error}"
            self.first_error = self.first_error or message
            if self.strict:
                raise DataError(f"Unreadable image: {self.first_error}.")
            self.pending.append(f"skipped {message}")
        if self.readable or len(self.pending) > 1:
            for warning in self.pending:
                self.reporter.warn(warning)
            self.pending = []

    def check(self) -> None:
        """Raises DataError if there was nothing to classify."""
        if not self.readable and self.first_error is not None:
            raise DataError(f"Unreadable image: {self.first_error}.")
        if not self.readable:
            raise DataError("No image was given.")

    def report_speed(self) -> None:
        """Says how fast it was, and how fast decoding alone would be; nothing for a few images."""
        speed = self.speed
        if speed.images >= ENOUGH_TO_TIME:
            self.reporter.say(
                f"{speed.images:,} images in {speed.seconds:.1f} s: {speed.rate:,.0f} images/s; "
                f"decoding alone could reach {speed.decoder_limit:,.0f} images/s here."
            )

    def summary(self, save_to: Path | None) -> str:
        """Returns what had been written when Ctrl-C was pressed."""
        if save_to is not None or not self.written:
            return "nothing was written."
        return f"{self.written} images were classified."


def _run(
    classifier: PromptClassifier,
    sources: Iterable[Path],
    ranking: Ranking,
    max_pixels: int,
    total: int | None,
    reporter: Reporter,
    tally: _Tally,
) -> Iterator[list[Prediction]]:
    with reporter.task("Classifying images", total) as advance:
        stream = predict_stream(classifier, sources, ranking, advance, max_pixels, tally.speed)
        for batch in stream:
            tally.add(batch)
            yield batch


def _sources(images: list[str]) -> tuple[Iterable[Path], int | None]:
    """Returns the images and their number, which is unknown for paths from standard input."""
    if "-" in images:
        if len(images) > 1:
            raise DataError("IMAGES has - and other paths; give paths on stdin or as arguments.")
        stream = cast(BufferedReader, sys.stdin.buffer)
        return read_paths(iter(lambda: stream.read1(CHUNK), b"")), None
    paths = find_images(images)
    return paths, len(paths)


@contextmanager
def _open_writer(output_format: str, save_to: Path | None) -> Iterator[PredictionWriter]:
    """Yields a writer; a file at `save_to` appears when it is complete, or not at all."""

    def text_writer(stream: TextIO) -> PredictionWriter:
        if output_format == "table":
            return TableWriter(console() if save_to is None else Console(file=stream, width=160))
        return CsvWriter(stream) if output_format == "csv" else JsonLinesWriter(stream)

    if save_to is None:
        with text_writer(sys.stdout) as writer:
            yield writer
        return
    with replace_file(save_to) as work:
        if output_format == "parquet":
            with ParquetWriter(work) as writer:
                yield writer
        else:
            with (
                open(work, "w", encoding="utf-8", newline="") as stream,
                text_writer(stream) as writer,
            ):
                yield writer


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
