"""`ipl serve RUN`: a saved prompt as a web service."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.apps.hosts import allowed_hosts
from ipl.cli import shared_options as common
from ipl.cli.output import on_interrupt
from ipl.cli.saved_classifier import load_classifier
from ipl.saving.run_folder import find_run, read_config
from ipl.support.extras import require
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
    engine: str = typer.Option("torch", help="torch; or onnx: int8, faster on a CPU, less exact."),
    max_bytes: int = typer.Option(10_000_000, min=1, help="Largest size of a request, in bytes."),
    max_pixels: int = typer.Option(25_000_000, min=1, help="Largest number of pixels of an image."),
    concurrency: int = typer.Option(128, min=1, help="Requests at a time; others get status 503."),
    quiet: bool = common.QUIET,
) -> None:
    """Answer HTTP requests with a saved prompt: POST /predict, GET /prompt, /healthz, /docs."""
    require("`ipl serve`", "serve", "fastapi", "python_multipart", "prometheus_client", "uvicorn")
    folder = find_run(run)
    read_config(folder)  # reports a wrong RUN before a port is taken

    from ipl.apps import serve as app

    reporter = Reporter(quiet=quiet)
    limits = app.Limits(max_bytes, max_pixels, concurrency)
    token = None if token_file is None else app.read_token(token_file)
    with app.listen(host, port) as bound, on_interrupt(lambda: "nothing was served."):
        if not app.is_loopback(bound):
            lacks = "no TLS" if token else "no authentication and no TLS"
            reporter.warn(
                f"{host} can be reached from other machines; there is {lacks}, so put a reverse "
                "proxy in front."
            )
        classifier = load_classifier(folder, classes, backbone, device, any_backbone)
        names = [host, str(bound.getsockname()[0]), *(allow_host or ())]
        hosts = allowed_hosts(names, app.is_loopback(bound))
        service = app.create_app(classifier, limits, hosts, token, engine)
        bound.listen()
        address = app.address_of(bound)
        reporter.say(f"{classifier.prompt_} answers at {address} (Ctrl-C ends it).")
        app.run_server(service, bound)
        reporter.say("Ended.")
