"""`ipl serve RUN`: a saved prompt as a web service."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import on_interrupt
from ipl.cli.shared_options import read_class_names
from ipl.saving.run_folder import find_run, read_config
from ipl.support.progress import Reporter


def serve(
    run: str = common.RUN,
    host: str = common.HOST,
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0 takes a free one."),
    allow_host: list[str] | None = common.ALLOW_HOST,
    token_file: Path | None = typer.Option(
        None, help="A file with a token that requests must send (Authorization: Bearer)."
    ),
    classes: str | None = common.CLASSES,
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    device: str = common.DEVICE,
    engine: str = typer.Option(
        "torch", help="torch; onnx (int8, faster on a CPU, less exact); or onnx-fp32."
    ),
    max_bytes: int = typer.Option(10_000_000, help="Largest size of a request, in bytes."),
    max_pixels: int = typer.Option(25_000_000, help="Largest number of pixels of an image."),
    max_classes: int = typer.Option(256, help="Most names in the class list of a request."),
    max_text: int = typer.Option(100, help="Most characters of a class name."),
    concurrency: int = typer.Option(128, help="Requests at a time; others get status 503."),
    upload_seconds: float = typer.Option(10.0, help="Time for a request to arrive completely."),
    answer_seconds: float = typer.Option(30.0, help="Time to answer it; then it gets status 503."),
    decode_seconds: float = typer.Option(5.0, help="Time to decode an image; else status 413."),
    batch: int = typer.Option(32, help="Images that the model classifies together."),
    wait_ms: float = typer.Option(5.0, help="Milliseconds that an image waits for others."),
    class_lists: int = typer.Option(16, help="Class lists whose text features stay in memory."),
    quiet: bool = common.QUIET,
) -> None:
    """Answer HTTP requests with a saved prompt: POST /predict, GET /prompt, /healthz, /docs."""
    folder = find_run(run)
    read_config(folder)  # reports a wrong RUN before a port is taken

    from ipl.apps.hosts import address_of, allowed_hosts, is_loopback, listen
    from ipl.apps.limits import Limits
    from ipl.apps.serve.app import create_app
    from ipl.apps.serve.guard import read_token
    from ipl.apps.server import run_server

    reporter = Reporter(quiet=quiet)
    limits = Limits(
        max_bytes=max_bytes,
        max_pixels=max_pixels,
        max_classes=max_classes,
        max_text=max_text,
        concurrency=concurrency,
        upload_seconds=upload_seconds,
        answer_seconds=answer_seconds,
        decode_seconds=decode_seconds,
        batch=batch,
        wait_ms=wait_ms,
        class_lists=class_lists,
    )
    token = None if token_file is None else read_token(token_file)
    names = read_class_names(classes) if classes is not None else None
    with listen(host, port) as bound, on_interrupt(lambda: "nothing was served."):
        if not is_loopback(bound):
            lacks = "no TLS" if token else "no authentication and no TLS"
            reporter.warn(
                f"{host} can be reached from other machines; there is {lacks}, so put a reverse "
                "proxy in front."
            )
        classifier = PromptClassifier.from_pretrained(
            folder, backbone, device, any_backbone=any_backbone
        )
        if names is not None:
            classifier = classifier.with_classes(names)
        hosts = allowed_hosts(bound, [host, *(allow_host or ())])
        app = create_app(classifier, limits, hosts, token, engine)
        bound.listen()
        reporter.say(f"{classifier.prompt_} answers at {address_of(bound)} (Ctrl-C ends it).")
        run_server(app, bound, limits)
        reporter.say("Ended.")
