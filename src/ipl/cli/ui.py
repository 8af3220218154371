"""`ipl ui [RUN]`: the workbench in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

import typer

from ipl.backbone.loading import load_backbone
from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import on_interrupt
from ipl.datasets.readers import read_dataset
from ipl.saving.run_folder import find_run, read_config
from ipl.support.progress import Reporter


def ui(
    run: str | None = typer.Argument(
        None, metavar="RUN", help="A saved prompt to start with: a folder, or owner/name."
    ),
    data: Path | None = typer.Option(
        None, help="Images to start with: a folder with one sub-folder per class, or a CSV file."
    ),
    host: str = common.HOST,
    port: int = typer.Option(7860, min=0, max=65535, help="Port; 0 takes a free one."),
    allow_host: list[str] | None = common.ALLOW_HOST,
    backbone: str | None = typer.Option(
        None, help=f"{common.BACKBONE_HELP} With RUN: where its weights are now."
    ),
    device: str = common.DEVICE,
    browser: bool = typer.Option(False, "--open", help="Open the page in the browser."),
    quiet: bool = common.QUIET,
) -> None:
    """Open a page on which to try everything out: images, words, training, predictions."""
    folder = None if run is None else find_run(run)
    if folder is not None:
        read_config(folder)  # reports a wrong RUN before a port is taken

    from ipl.apps.hosts import address_of, allowed_hosts, is_loopback, listen
    from ipl.apps.workbench.app import run_workbench
    from ipl.apps.workbench.fit_thread import FitThread
    from ipl.apps.workbench.image_classes import ImageClasses
    from ipl.apps.workbench.sessions import Workbench

    reporter = Reporter(quiet=quiet)
    images = None if data is None else ImageClasses.from_dataset(read_dataset(data))
    with listen(host, port) as bound, on_interrupt(lambda: "nothing was opened."):
        local = is_loopback(bound)
        if not local:
            reporter.warn(
                f"{host} can be reached from other machines; there is no authentication and no "
                "TLS, so put a reverse proxy in front. Folders cannot be named from the page."
            )
        classifier = None
        if folder is not None:
            classifier = PromptClassifier.from_pretrained(folder, backbone, device)
            clip = classifier.learner_.backbone
        else:
            clip = load_backbone(backbone or "pocket", device)

        def on_ready() -> None:
            reporter.say(f"The workbench is open at {address_of(bound)} (Ctrl-C ends it).")
            if browser:
                webbrowser.open(address_of(bound))

        workbench = Workbench(clip, classifier, images, browse=local, run_name=_run_name(run))
        hosts = allowed_hosts(bound, [host, *(allow_host or ())])
        run_workbench(workbench, bound, hosts, on_ready)
        reporter.say("Ended.")
    if FitThread.any_running():  # all is saved; the interpreter would abort on a thread in torch
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _run_name(run: str | None) -> str:
    """Returns the name of a run for the page, without the folder that holds it."""
    if run is None:
        return ""
    return Path(run).resolve().name if Path(run).is_dir() else run
