"""What the commands share for their output: the console, JSON, command lines, Ctrl-C."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from ipl.support.errors import ConfigError, printable
from ipl.support.files import check_file_writable, to_json
from ipl.support.progress import SafeConsole

PIPE_WIDTH = 160  # columns of output that is not a terminal


def console() -> Console:
    """A console on standard output, wide enough for tables if it is not a terminal."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return SafeConsole(highlight=False, emoji=False, width=width)


def echo(text: str, end: str = "\n") -> None:
    """Prints a text as it is, but for what could control the terminal."""
    print(printable(text), end=end)


def print_json(value: Any) -> None:
    print(to_json(value))


def command_line(*arguments: str | Path) -> str:
    """A command line of this program that can be pasted into a shell."""
    program = "ipl"
    if not shutil.which(program):  # then as it was started
        program = sys.argv[0] if Path(sys.argv[0]).name == "ipl" else "python -m ipl"
    return " ".join([program, *(shlex.quote(str(argument)) for argument in arguments)])


@contextmanager
def on_interrupt(message: Callable[[], str]) -> Iterator[None]:
    """Prints a message on Ctrl-C and exits with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nstopped: {printable(message())}", file=sys.stderr)
        sys.exit(130)


def check_output_file(path: Path, overwrite: bool, option: str = "--out") -> None:
    """Raises IplError if a file cannot be written, or exists and may not be replaced."""
    check_file_writable(path)
    if os.path.exists(path) and not overwrite:
        raise ConfigError(
            f"{path} already exists; choose another file with {option}, or replace it with "
            "--overwrite."
        )
