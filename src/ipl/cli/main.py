"""The command `ipl`: its sub-commands, and the exit code of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperGroup

from ipl._version import __version__
from ipl.cli.output import INTERRUPTS
from ipl.support.errors import ConfigError, IplError, shorten

# Threads that spin while they wait make several processes on one machine many times slower; this
# must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The base of what typer raises for a wrong command line; it has had no public name since typer
# stopped using click's.
UsageError: Any = typer.BadParameter.__base__

# What each command does. It is a module beside this one, with a function of that name, or with an
# app if it has sub-commands of its own.
COMMANDS = {
    "ablate": "Vary one setting and keep all others; write tables and a plot to OUT/ablations.",
    "backbones": "List the families of backbones, what each allows, and whose weights are on "
    "this machine.",
    "bench": "Run a protocol on datasets, with one record for each learner, arm, shots and seed.",
    "cache": "Show the results that are stored on disk for later commands, or remove them.",
    "compare": "Compare saved prompts on one page: words, accuracies, settings that differ.",
    "data": "List the published datasets, check them, or check your own data.",
    "demo": "Learn prompts with and without words for drawn scenes; show what the words are worth.",
    "evaluate": "Evaluate a saved prompt on labelled images: accuracy, every class, calibration.",
    "export": "Write a saved prompt as a matrix, as ONNX, as a transformers folder or as "
    "plain text.",
    "fit": "Learn a prompt from a few images per class and save it.",
    "learners": "List the prompt learners with their published hyperparameters and "
    "parameter counts.",
    "predict": "Classify images with a saved prompt, into its classes or any others.",
    "push": "Share a saved prompt on the Hugging Face hub: its three small files and nothing else.",
    "rate": "Write a sheet on which people rate words blindly from 1 to 5, or read filled ones.",
    "recipe": "List, show and copy the recipes: one small YAML file for each row of the paper.",
    "report": "Report what a saved prompt has learnt: its words, what they do, whether to "
    "believe it.",
    "select": "Choose words for a few images per class and show the gain of each; nothing "
    "is trained.",
    "serve": "Answer HTTP requests with a saved prompt: POST /predict, GET /prompt, "
    "/healthz, /docs.",
    "table": "Show the results of a bench; write them as files to DIR/tables. Several "
    "DIRs are only shown.",
    "ui": "Open a page on which to try everything out: images, words, training, predictions.",
    "words": "Show the pool: its size and hash, and why a word is in it or not; or rebuild it.",
}


class Program(TyperGroup):
    """All commands; the module of one, and torch with it, is imported when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Returns the name of the command that is called, the command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Returns a command with its arguments and options."""
    module = import_module(f"ipl.cli.{name}")
    program = typer.Typer()
    if hasattr(module, "app"):
        program.add_typer(module.app, name=name)
    else:
        program.command(name)(getattr(module, name))
    return typer.main.get_group(program).commands[name]


def make_app() -> typer.Typer:
    """Returns the program, with the names of its commands and what they do."""
    app = typer.Typer(
        name="ipl",
        cls=Program,
        help="Teach a frozen CLIP a new task from a few images per class, with a prompt that a "
        "person can read.",
        callback=_options,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # a bug gets a plain traceback
    )
    for name, does in COMMANDS.items():
        app.command(name, help=does)(lambda: None)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ipl {__version__}")
        raise typer.Exit


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
        with INTERRUPTS.watch():
            code = _run()
    except UsageError as error:
        _show_usage_error(error)
        code = 2
    except (IplError, OSError) as error:  # OSError: a full disk, for example
        print(f"error: {shorten(str(error))}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _run() -> Any:
    """Returns the exit code of the command that was typed; 130 if Ctrl-C has ended it."""
    try:
        _check_none_is_empty(sys.argv[1:])
        code = make_app()(standalone_mode=False)
    except BaseException:
        if not INTERRUPTS.seen:
            raise
        code = 130
    if INTERRUPTS.seen and code == 130 and not INTERRUPTS.announced:
        print("\nstopped.", file=sys.stderr)
    return code


def _check_none_is_empty(arguments: Iterable[str]) -> None:
    """Raises ConfigError for an empty argument: as a path it would be the current folder."""
    for before, argument in pairwise(("", *arguments)):
        flag, equals, value = argument.partition("=")
        if flag.startswith("--") and equals and not value:
            raise ConfigError(f"{flag} is empty; give it a value or leave it out.")
        if not argument:
            which = f"The argument after {before}" if before.startswith("-") else "An argument"
            raise ConfigError(f"{which} is empty (''); is a variable of the shell not set?")


def _show_usage_error(error: Any) -> None:
    """Prints what is wrong with a command line; the help, if a group of commands got nothing."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    sentence = " ".join(error.format_message().split()).rstrip(".")
    path = error.ctx.command_path if error.ctx is not None else "ipl"
    end = " See" if sentence.endswith("?") else "; see"
    print(f"error: {sentence}{end} `{path} --help`.", file=sys.stderr)
