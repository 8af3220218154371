"""`ipl ui [RUN]`: the workbench in a browser."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from ipl.apps.hosts import LOCAL_HOSTS
from ipl.backbone.loading import find_model
from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import on_interrupt
from ipl.config import FitConfig
from ipl.datasets.readers import read_dataset
from ipl.support.extras import require
from ipl.support.progress import Reporter

UPLOADS = "ipl-ui-"  # how the names of temporary folders begin
DAY = 86_400  # seconds


def ui(
    run: str | None = typer.Argument(
        None, metavar="RUN", help="A saved prompt to start with: a folder, or owner/name."
    ),
    data: Path | None = typer.Option(
        None, help="Images to start with: a folder with one sub-folder per class, or a CSV file."
    ),
    runs: Path = typer.Option(
        Path("ipl-runs"), help="The folder in which the page saves and opens prompts."
    ),
    host: str = common.HOST,
    port: int | None = typer.Option(
        None, min=1, max=65535, help="Port (default: 7860, or the next free one)."
    ),
    allow_host: list[str] | None = common.ALLOW_HOST,
    backbone: str | None = typer.Option(
        None, help=f"{common.BACKBONE_HELP} With RUN: where its weights are now."
    ),
    device: str = common.DEVICE,
    browser: bool = typer.Option(False, "--open", help="Open the page in the browser."),
    quiet: bool = common.QUIET,
) -> None:
    """Open a page on which to try everything out: images, words, training, predictions."""
    require("`ipl ui`", "ui", "gradio")
    reporter = Reporter(quiet=quiet)
    with on_interrupt(lambda: "nothing was opened."), upload_folder() as uploads:
        from ipl.apps import workbench as app

        if data is not None:
            read_dataset(data)
        classifier = None
        if run is not None:
            classifier = PromptClassifier.from_pretrained(run, backbone, device)
        name = FitConfig.backbone
        if backbone is not None:
            find_model(name := backbone)
        elif classifier is not None:
            name = classifier.result_.backbone["name"]
        start = app.Session(data, classifier)
        workbench = app.Workbench(uploads, runs, name, device, start, host in LOCAL_HOSTS)
        page = app.launch(workbench, host, port, allow_host or (), browser)
        if not workbench.local:
            reporter.warn(
                f"{host} can be reached from other machines; there is no authentication and no "
                "TLS, so put a reverse proxy in front. Folders cannot be named from the page."
            )
        reporter.say(f"The workbench is open at {page.local_url} (Ctrl-C ends it).")
        all_ended = app.serve_until_signal(page, workbench)
        reporter.say("Ended.")
    if not all_ended:  # a fit is still in torch, and the interpreter would abort
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@contextmanager
def upload_folder() -> Iterator[Path]:
    """A temporary folder for what browsers send; Gradio is to be imported after it is made."""
    remove_old_uploads()
    with tempfile.TemporaryDirectory(prefix=UPLOADS, ignore_cleanup_errors=True) as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder  # Gradio reads it from nowhere else
        os.environ["GRADIO_HEARTBEAT_INTERVAL"] = "2"  # seconds until a closed tab is noticed
        yield Path(folder)


def remove_old_uploads() -> None:
    """Remove the folders of workbenches that were killed more than a day ago."""
    for folder in Path(tempfile.gettempdir()).glob(f"{UPLOADS}*"):
        with suppress(OSError):  # another start may be removing it
            age = time.time() - folder.lstat().st_mtime
            if age > DAY and folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
