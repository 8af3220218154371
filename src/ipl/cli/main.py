"""The command `ipl`: its sub-commands, and the exit code of errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import Any

import typer

from ipl._version import __version__
from ipl.cli.output import INTERRUPTS
from ipl.support.errors import ConfigError, IplError, brief, shorten

# Threads that spin while they wait make several processes on one machine many times slower; this
# must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The base of what typer raises for a wrong command line; it has had no public name since typer
# stopped using click's.
UsageError: Any = typer.BadParameter.__base__

# Each is a module beside this one, with a function of that name, or with an app if it has
# sub-commands of its own.
COMMANDS = (
    *("ablate", "backbones", "bench", "cache", "compare", "data", "demo", "evaluate", "export"),
    *("fit", "learners", "predict", "push", "rate", "recipe", "report", "select", "serve"),
    *("table", "ui", "words"),
)


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Returns the program with some of its commands; the modules of others are not imported."""
    app = typer.Typer(
        name="ipl",
        help="Teach a frozen CLIP a new task from a few images per class, with a prompt that a "
        "person can read.",
        callback=_options,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # a bug gets a plain traceback
    )
    for name in names:
        module = import_module(f"ipl.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
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
        print(f"error: {name_options(shorten(str(error)), sys.argv[1:])}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _run() -> Any:
    """Returns the exit code of the command that was typed; 130 if Ctrl-C has ended it."""
    try:
        _check_none_is_empty(sys.argv[1:])
        typed = [name for name in sys.argv[1:2] if name in COMMANDS]
        app = make_app(typed or COMMANDS)  # what is not a command needs all, to be corrected
        code = app(standalone_mode=False)
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


def name_options(message: str, arguments: Iterable[str]) -> str:
    """Returns a message that names the options that were typed, not the settings behind them."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        if name == flag or not name.isidentifier():
            continue
        # One word alone is a setting only at the beginning: "words is 3; use fewer words".
        # --seeds 1,2 are several values of seed.
        singular = rf"{name.removesuffix('s')}s?" if name.endswith("s") else name
        pattern = rf"\b{name}\b" if "_" in name else rf"^{singular}(?= (is|and) )"
        message = re.sub(pattern, flag, message)
    return message


def _show_usage_error(error: Any) -> None:
    """Prints what is wrong with a command line; the help, if a group of commands got nothing."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    sentence = _bad_value(error) or " ".join(error.format_message().split()).rstrip(".")
    path = error.ctx.command_path if error.ctx is not None else "ipl"
    end = " See" if sentence.endswith("?") else "; see"
    print(f"error: {sentence}{end} `{path} --help`.", file=sys.stderr)


# How pydantic, with which newer versions of typer read values, says what is allowed.
ALLOWED = {
    r"a valid integer.*": "a whole number",
    r"a valid number.*": "a number",
    r"less than or equal to (.*)": r"\1 or less",
    r"greater than or equal to (.*)": r"\1 or more",
}


def _bad_value(error: Any) -> str:
    """Returns a sentence with an option's value and what is allowed, "" if they are not known."""
    message = str(getattr(error, "message", ""))
    allowed = message.removeprefix("Input should be ").rstrip(".")
    options = getattr(getattr(error, "param", None), "opts", ())
    for before, argument in reversed(list(pairwise(sys.argv))):  # of two, the last counts
        flag, equals, value = argument.partition("=")
        name, value = (flag, value) if equals else (before, argument)
        if name in options and not message.startswith(allowed):
            for pattern, plain in ALLOWED.items():
                allowed = re.sub(pattern, plain, allowed)
            return f"{name} is {brief(value)}; it must be {allowed}"
    return ""
