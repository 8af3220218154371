"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from ipl.support.errors import printable

Advance = Callable[..., None]  # advance(steps=1, note="")

SECONDS_BETWEEN_LINES = 10.0


class SafeConsole(Console):
    """A console that shows strangers' texts, such as the names of files, without controls."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


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
        All warnings so far, each once.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.quiet = quiet
        self.warnings: list[str] = []
        self.console = console or SafeConsole(stderr=True, highlight=False, emoji=False)

    def __reduce__(self) -> tuple[type[Reporter], tuple[bool]]:
        return Reporter, (self.quiet,)  # another process has a terminal of its own

    def say(self, message: str) -> None:
        """Shows one line, unless quiet."""
        if not self.quiet:
            self.console.print(message, markup=False, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Shows one line as a warning, even when quiet; the same line once."""
        if message in self.warnings:  # another seed or fold has given it
            return
        self.warnings.append(message)
        self.console.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)

    def record_event(self, event: object) -> None:
        """Takes note of an event such as a chosen word or a finished epoch.

        A terminal shows progress in other ways; subclasses that show events elsewhere override it.

        Parameters
        ----------
        event : object
            A `Selection` with the words so far, a `TrainingStarted`, an `EpochRecord`, or the
            `FitResult` at the end. Others may be added: ignore those that you do not know.
        """

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Shows the progress of one piece of work, of which `total` steps are known or None.

        Yields `advance(steps=1, note="")`, to be called after each step or several.
        """
        if self.console.is_terminal and not self.quiet:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
            )
            with Progress(*columns, console=self.console, transient=True) as progress:
                bar = progress.add_task(title, total=total, note="")
                yield lambda steps=1, note="": progress.update(bar, advance=steps, note=note)
        else:
            yield self._lines(title, total)

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


SILENT = Reporter(quiet=True)
