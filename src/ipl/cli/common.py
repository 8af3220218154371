"""What the sub-commands share: options, standard output, and what Ctrl-C says."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

QUIET = typer.Option(False, "--quiet", "-q", help="No progress on standard error.")
JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")
DEVICE = typer.Option("auto", "--device", help="auto, cpu, cuda, cuda:1, mps.")
BACKBONE_HELP = "pocket (bundled), a Hugging Face name or a model folder."


def out() -> Console:
    """Returns the console of standard output; piped output is not cut to a terminal's width."""
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, width=width)


def print_json(value: Any) -> None:
    """Prints one JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def typed(*words: str | Path) -> str:
    """Returns a command line that can be typed as it stands."""
    return " ".join([command(), *(shlex.quote(str(word)) for word in words)])


def command() -> str:
    """Returns how to call this program from here: `ipl`, or the path it was started by."""
    if shutil.which("ipl"):
        return "ipl"
    here = Path(sys.argv[0])
    return str(here) if here.name == "ipl" else "python -m ipl"


@contextmanager
def stopping(kept: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C says what was kept and ends with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nstopped: {kept()}", file=sys.stderr)
        raise typer.Exit(130) from None
