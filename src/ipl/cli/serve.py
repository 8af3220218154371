"""`ipl serve RUN`: a saved prompt as a web service."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.apps.hosts import allowed_hosts
from ipl.cli import shared_options as common
from ipl.cli.loading import load_classifier
from ipl.cli.output import on_interrupt
from ipl.saving.run_folder import find_run, read_config
from ipl.support.errors import ConfigError
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
    engine: str = typer.Option(
        "torch", help="torch; onnx (int8, faster on a CPU, less exact); or onnx-fp32."
    ),
    max_bytes: int = typer.Option(10_000_000, help="Largest size of a request, in bytes."),
    max_pixels: int = typer.Option(25_000_000, help="Largest number of pixels of an image."),
    max_classes: int = typer.Option(256, help="Most names in the class list of a request."),
    concurrency: int = typer.Option(128, help="Requests at a time; others get status 503."),
    upload_seconds: float = typer.Option(10.0, help="Time for a request to arrive completely."),
    answer_seconds: float = typer.Option(30.0, help="Time to answer it; then it gets status 503."),
    decode_seconds: float = typer.Option(5.0, help="Time to decode an image; else status 413."),
    batch: int = typer.Option(32, help="Images that the model classifies together."),
    quiet: bool = common.QUIET,
) -> None:
    """Answer HTTP requests with a saved prompt: POST /predict, GET /prompt, /healthz, /docs."""
    require("`ipl serve`", "serve", "fastapi", "python_multipart", "prometheus_client", "uvicorn")
    folder = find_run(run)
    read_config(folder)  # reports a wrong RUN before a port is taken

    from pydantic import ValidationError

    from ipl.apps import serve as app

    reporter = Reporter(quiet=quiet)
    try:
        limits = app.Limits(
            max_bytes=max_bytes,
            max_pixels=max_pixels,
            max_classes=max_classes,
            concurrency=concurrency,
            upload_seconds=upload_seconds,
            answer_seconds=answer_seconds,
            decode_seconds=decode_seconds,
            batch=batch,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]} is {first['input']}: {first['msg']}.") from None
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
