"""The command `ipl`: its sub-commands, and the exit code of errors."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import typer

from ipl._version import __version__
from ipl.cli import (
    ablate,
    bench,
    cache,
    compare,
    data,
    demo,
    evaluate,
    export,
    fit,
    learners,
    predict,
    push,
    rate,
    recipe,
    report,
    select,
    serve,
    table,
    ui,
    words,
)
from ipl.support.errors import IplError, shorten

# Threads that spin while they wait make several processes on one machine many times slower; this
# must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="ipl",
    help="Teach a frozen CLIP a new task from a few images per class, with a prompt that a "
    "person can read.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a bug gets a plain traceback
)
app.command("ablate")(ablate.ablate)
app.command("bench")(bench.bench)
app.command("cache")(cache.cache)
app.command("compare")(compare.compare)
app.add_typer(data.app, name="data")
app.command("demo")(demo.demo)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("fit")(fit.fit)
app.command("learners")(learners.learners)
app.command("predict")(predict.predict)
app.command("push")(push.push)
app.command("rate")(rate.rate)
app.add_typer(recipe.app, name="recipe")
app.command("report")(report.report)
app.command("select")(select.select)
app.command("serve")(serve.serve)
app.command("table")(table.table)
app.command("ui")(ui.ui)
app.command("words")(words.words)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ipl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    del version


def main() -> None:
    """Runs the command; bad input gives one sentence and exit code 2, a bug a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a path may not be printable
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (IplError, OSError) as error:  # OSError: a full disk, for example
        print(f"error: {shorten(str(error))}", file=sys.stderr)
        sys.exit(2)
