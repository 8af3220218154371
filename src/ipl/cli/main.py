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
from ipl.support.errors import ConfigError, IplError, shorten

# Threads that spin while they wait make several processes on one machine many times slower; this
# must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The base of what typer raises for a wrong command line; it has had no public name since typer
# stopped using click's.
UsageError: Any = typer.BadParameter.__base__

# The commands in groups, with what they do. Each is a function of that name, or an app with
# sub-commands, in the module `ipl.cli.NAME`.
GROUPS = {
    "Your images": {
        "fit": "Learn a prompt from your images and save it.",
        "predict": "Classify images with a saved prompt, into its classes or any others.",
        "evaluate": "Measure a saved prompt on labelled images.",
        "report": "Write a page about a saved prompt, or compare several.",
        "export": "Write a saved prompt as a matrix, ONNX, transformers or text, or share it.",
        "serve": "Answer HTTP requests with a saved prompt.",
        "ui": "Open a local page on which to try everything out.",
        "demo": "See all of it in two minutes, on images that come with the package.",
    },
    "Research": {
        "select": "Choose words and show the gain of each; nothing is trained.",
        "bench": "Compare learners with and without words on many datasets.",
        "table": "Show the results of a bench as tables, beside the paper's numbers.",
        "rate": "Let people rate words blindly, and read their ratings.",
        "data": "Check datasets before a run, or rebuild the pool of words.",
        "list": "List learners, backbones, datasets, recipes, or what is cached.",
    },
}
COMMANDS = {name: does for commands in GROUPS.values() for name, does in commands.items()}


class Program(TyperGroup):
    """All commands; the module of one, and torch with it, is imported when it is called."""

    def get_help(self, ctx: Any) -> str:
        """Shows the help, for flags without a type."""
        _hide_types_of_flags(self, ctx)
        return super().get_help(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Replaces the placeholder of a command by the command itself."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command = load_command(str(name))
            _hide_types_of_flags(command, ctx)
        return name, command, rest


def load_command(name: str) -> Any:
    """Imports a command with its arguments and options."""
    module = import_module(f"ipl.cli.{name}")
    program = typer.Typer()
    if hasattr(module, "app"):
        program.add_typer(module.app, name=name)
    else:
        program.command(name)(getattr(module, name))
    return typer.main.get_group(program).commands[name]


def _hide_types_of_flags(command: Any, ctx: Any) -> None:
    """Removes `<bool>` from the help: a flag takes no value."""
    for parameter in command.get_params(ctx):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for sub_command in getattr(command, "commands", {}).values():
        _hide_types_of_flags(sub_command, ctx)


def make_app() -> typer.Typer:
    """Makes the program, with the names of its commands and what they do."""
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
    for group, commands in GROUPS.items():
        for name, does in commands.items():
            app.command(name, help=does, rich_help_panel=group)(lambda: None)
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
        _check_none_is_empty(sys.argv[1:])
        code = make_app()(standalone_mode=False)
    except UsageError as error:
        _show_usage_error(error)
        code = 2
    except (IplError, OSError) as error:  # OSError: a full disk, for example
        print(f"error: {shorten(str(error))}", file=sys.stderr)
        code = 2
    except typer.Abort:  # Ctrl-C in earlier releases of typer
        code = 130
    if code == 130:
        print("\nstopped.", file=sys.stderr)
    sys.exit(code)


def _check_none_is_empty(arguments: Iterable[str]) -> None:
    """Raises ConfigError for an empty argument: as a path it would be the current folder."""
    for before, argument in pairwise(("", *arguments)):
        flag, equals, value = argument.partition("=")
        if not argument or (flag.startswith("--") and equals and not value):
            which = flag or (before if before.startswith("-") else "An argument")
            raise ConfigError(f"{which} is empty; is a variable of the shell not set?")


def _show_usage_error(error: Any) -> None:
    """Prints what is wrong with a command line; the help, if a group of commands got nothing."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    path = error.ctx.command_path if error.ctx is not None else "ipl"
    sentence = error.format_message().rstrip(".").replace("Input should", "it must")
    print(f"error: {shorten(sentence)} (see `{path} --help`).", file=sys.stderr)
