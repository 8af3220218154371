"""What the commands share for their output: the console, JSON, command lines, Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from ipl.support.errors import ConfigError
from ipl.support.files import check_file_writable

PIPE_WIDTH = 160  # columns of output that is not a terminal


def console() -> Console:
    """Returns a console on standard output, wide enough for tables if it is not a terminal."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, emoji=False, width=width)


def print_json(value: Any) -> None:
    """Prints a JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def command_line(*arguments: str | Path) -> str:
    """Returns a command line of this program, quoted so that it can be pasted into a shell."""
    return " ".join([program_name(), *(shlex.quote(str(argument)) for argument in arguments)])


def program_name() -> str:
    """Returns how to run this program: `ipl` if it is on the path, else how it was started."""
    if shutil.which("ipl"):
        return "ipl"
    script = Path(sys.argv[0])
    return str(script) if script.name == "ipl" else "python -m ipl"


class Interrupts:
    """Remembers Ctrl-C, because libraries may turn it into an error of their own.

    Attributes
    ----------
    seen : bool
        Whether Ctrl-C was pressed.
    announced : bool
        Whether the user has been told what became of the work.
    """

    seen = announced = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Remembers whether Ctrl-C is pressed in the block; it still raises KeyboardInterrupt."""
        self.seen = self.announced = False

        def remember(number: int, frame: FrameType | None) -> None:
            self.seen = True
            signal.default_int_handler(number, frame)

        before = signal.getsignal(signal.SIGINT)
        # A shell lets background jobs ignore it, and only the main thread gets signals.
        watched = before != signal.SIG_IGN and current_thread() is main_thread()
        if watched:
            signal.signal(signal.SIGINT, remember)
        try:
            yield
        finally:
            if watched:
                signal.signal(signal.SIGINT, before)


INTERRUPTS = Interrupts()


@contextmanager
def on_interrupt(message: Callable[[], str]) -> Iterator[None]:
    """Prints a message on Ctrl-C and exits with code 130."""
    try:
        yield
    except typer.Exit:
        raise
    except BaseException as error:
        if not (INTERRUPTS.seen or isinstance(error, KeyboardInterrupt)):
            raise
        INTERRUPTS.announced = True
        print(f"\nstopped: {message()}", file=sys.stderr)
        raise typer.Exit(130) from None


def check_output_file(path: Path, overwrite: bool, option: str = "--out") -> None:
    """Raises IplError if a file cannot be written, or exists and may not be replaced."""
    check_file_writable(path)
    if os.path.exists(path) and not overwrite:
        raise ConfigError(
            f"{path} already exists; choose another file with {option}, or replace it with "
            "--overwrite."
        )
