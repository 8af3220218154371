"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[..., None]  # advance(steps=1, note="")

SECONDS_BETWEEN_LINES = 10.0


class Reporter:
    """Shows messages and progress on standard error.

    Parameters
    ----------
    quiet : bool, default=False
        Whether to show warnings only.
    console : rich.console.Console, optional
        Where to write; by default standard error.

    Attributes
    ----------
    warnings : list of str
        All warnings so far.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.quiet = quiet
        self.warnings: list[str] = []
        self.console = console or Console(stderr=True, highlight=False, emoji=False)

    def __reduce__(self) -> tuple[type[Reporter], tuple[bool]]:
        return Reporter, (self.quiet,)  # another process has a terminal of its own

    def say(self, message: str) -> None:
        """Shows one line, unless quiet."""
        if not self.quiet:
            self.console.print(message, markup=False, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Shows one line as a warning, even when quiet."""
        self.warnings.append(message)
        self.console.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)

    def record_event(self, event: object) -> None:
        """Takes note of an event such as a chosen word or a finished epoch.

        A terminal shows progress in other ways, so this reporter ignores events; subclasses that
        show them elsewhere override this method.

        Parameters
        ----------
        event : object
            A `Selection` with the words so far, a `TrainingStarted`, an `EpochRecord`, or the
            `FitResult` at the end. Others may be added: ignore those that you do not know.
        """
        del event

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Show the progress of one piece of work.

        Parameters
        ----------
        title : str
            What is being done.
        total : int or None
            The number of steps, None if it is unknown.

        Yields
        ------
        callable
            `advance(steps=1, note="")`, to be called after each step or several.
        """
        if self.quiet:
            yield _ignore
        elif self.console.is_terminal:
            with self._bar(title, total) as advance:
                yield advance
        else:
            yield self._lines(title, total)

    @contextmanager
    def _bar(self, title: str, total: int | None) -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            bar = progress.add_task(title, total=total, note="")

            def advance(steps: int = 1, note: str = "") -> None:
                progress.update(bar, advance=steps, note=note)

            yield advance

    def _lines(self, title: str, total: int | None) -> Advance:
        done, last_line = 0, time.monotonic()

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done, last_line
            done += steps
            if time.monotonic() - last_line >= SECONDS_BETWEEN_LINES or done == total:
                last_line = time.monotonic()
                of_total = "" if total is None else f" of {total}"
                self.say(f"{title}: {done}{of_total} {note}".rstrip())

        return advance


def _ignore(steps: int = 1, note: str = "") -> None:
    del steps, note


SILENT = Reporter(quiet=True)
