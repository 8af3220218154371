"""`ipl predict RUN IMAGES...`: what a saved prompt sees in images."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import typer

from ipl.cli import options as common
from ipl.cli.options import check_new, out, print_json, read_class_names, stopping
from ipl.support.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ipl.classifier import PromptClassifier
    from ipl.inference.predictions import Prediction, Ranking
    from ipl.inference.writers import Writer
    from ipl.support.progress import Reporter

FORMATS = ("table", "csv", "jsonl", "parquet")
CHUNK = 65_536  # bytes of standard input that are taken at a time


def predict(
    run: str = common.RUN,
    images: list[str] = typer.Argument(
        metavar="IMAGES", help="Image files, folders of them, patterns; - reads paths from stdin."
    ),
    classes: str | None = common.CLASSES,
    top: int = typer.Option(5, min=1, help="Classes to show per image."),
    threshold: float = typer.Option(
        0.0, min=0.0, max=1.0, help="Leave out classes less probable than this."
    ),
    style: str | None = typer.Option(
        None, "--format", help="table, csv, jsonl or parquet (default: as --out ends, else table)."
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
    from ipl.classifier import PromptClassifier
    from ipl.inference.predictions import Ranking
    from ipl.saving.format import read_run
    from ipl.saving.sharing import find_run
    from ipl.support.progress import Reporter

    reporter = Reporter(quiet=quiet)
    ranking = Ranking(top, threshold)
    form = _format(style, save_to)
    if form == "parquet" and save_to is None:
        raise ConfigError("--format parquet needs a file to write to: --out FILE.")
    if as_json and (form != "table" or save_to is not None):
        raise ConfigError("--json prints one object; it does not go with --format or --out.")
    if save_to is not None:
        check_new(save_to, overwrite)
    folder = find_run(run)
    read_run(folder)  # before the images are looked for: RUN comes first
    names = read_class_names(classes) if classes is not None else None
    sources, total = _sources(images)
    done = _Done(reporter, strict)
    with stopping(lambda: done.told(save_to)), _quiet_pipe():
        classifier = PromptClassifier.from_pretrained(
            folder, backbone, device, any_backbone=any_backbone
        )
        if names is not None:
            classifier = classifier.with_classes(names)
        if as_json:
            rows: list[Prediction] = []
            for batch in _run(classifier, sources, ranking, total, reporter, done):
                rows.extend(batch)
        else:
            with _writer(form, save_to) as writer:
                shown = save_to is None and sys.stdout.isatty()
                told = Reporter(quiet=True) if shown else reporter  # lines show how far it is
                for batch in _run(classifier, sources, ranking, total, told, done):
                    writer.write(batch)
                    done.written += len(batch)
                done.check()
    if as_json:
        done.check()
        good = [row.as_dict() for row in rows if row.error is None]
        skipped = [f"{row.image}: {row.error}" for row in rows if row.error is not None]
        head = {"run": run, "prompt": classifier.prompt_, "words": classifier.words_}
        print_json({**head, "predictions": good, "skipped": skipped})


def _format(style: str | None, save_to: Path | None) -> str:
    """Returns the format that is asked for, else the one that the file's name ends in."""
    if style is None:
        ending = "" if save_to is None else save_to.suffix.lower().removeprefix(".")
        return ending if ending in FORMATS else "table"
    if style not in FORMATS:
        raise ConfigError(f"--format is {style!r}; allowed are {', '.join(FORMATS)}.")
    return style


class _Done:
    """What became of the images so far."""

    def __init__(self, reporter: Reporter, strict: bool) -> None:
        self.reporter, self.strict = reporter, strict
        self.good = self.written = 0
        self.waiting: list[str] = []  # a single bad image is the error itself, not told twice
        self.first_error: str | None = None

    def see(self, batch: list[Prediction]) -> None:
        """Counts a batch and names what cannot be read; with `strict` that is the end."""
        for row in batch:
            if row.error is None:
                self.good += 1
                continue
            self.first_error = self.first_error or f"{row.shown}: {row.error}"
            if self.strict:
                raise DataError(f"Unreadable image: {self.first_error}.")
            self.waiting.append(f"skipped {row.shown}: {row.error}")
        if self.good or len(self.waiting) > 1:
            for message in self.waiting:
                self.reporter.warn(message)
            self.waiting = []

    def check(self) -> None:
        """Raises DataError if there was nothing to classify."""
        if not self.good and self.first_error is not None:
            raise DataError(f"Unreadable image: {self.first_error}.")
        if not self.good:
            raise DataError("No image was given.")

    def told(self, save_to: Path | None) -> str:
        """Returns what was written when Ctrl-C came."""
        if save_to is not None or not self.written:
            return "nothing was written."
        return f"{self.written} images were classified."


def _run(
    classifier: PromptClassifier,
    sources: Iterable[Path],
    ranking: Ranking,
    total: int | None,
    reporter: Reporter,
    done: _Done,
) -> Iterator[list[Prediction]]:
    from ipl.inference.predictions import predict_stream

    with reporter.task("Classifying images", total) as advance:
        for batch in predict_stream(classifier, sources, ranking, advance):
            done.see(batch)
            yield batch


def _sources(images: list[str]) -> tuple[Iterable[Path], int | None]:
    """Returns the images, and how many they are unless they come one after the other."""
    from ipl.inference.image_paths import find_images, paths_in

    if "-" in images:
        if len(images) > 1:
            raise DataError("IMAGES is - and more; paths come from stdin or as arguments.")
        stream = cast(BufferedReader, sys.stdin.buffer)
        return paths_in(iter(lambda: stream.read1(CHUNK), b"")), None
    found = find_images(images)
    return found, len(found)


@contextmanager
def _writer(form: str, save_to: Path | None) -> Iterator[Writer]:
    """Yields a writer; a file appears at `save_to` whole or not at all."""
    from rich.console import Console

    from ipl.inference.writers import CsvWriter, JsonLinesWriter, ParquetWriter, TableWriter
    from ipl.support.files import replace_file

    def make(stream: TextIO) -> Writer:
        if form == "table":
            return TableWriter(out() if save_to is None else Console(file=stream, width=160))
        return CsvWriter(stream) if form == "csv" else JsonLinesWriter(stream)

    if save_to is None:
        with make(sys.stdout) as writer:
            yield writer
        return
    with replace_file(save_to) as work:
        if form == "parquet":
            with ParquetWriter(work) as writer:
                yield writer
        else:
            with open(work, "w", encoding="utf-8", newline="") as stream, make(stream) as writer:
                yield writer


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """Ends quietly, with exit code 1, when whoever reads standard output has seen enough."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError):  # or Python would complain once more as it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
