"""Saying how far something long has come: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[..., None]  # advance(steps=1, note="")

SECONDS_BETWEEN_LINES = 10.0


class Reporter:
    """Tells a person what is going on, on standard error; `quiet` tells nothing but warnings."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.quiet = quiet
        self.warned: list[str] = []  # all warnings so far
        self.console = console or Console(stderr=True, highlight=False)

    def __reduce__(self) -> tuple[type[Reporter], tuple[bool]]:
        return Reporter, (self.quiet,)  # another process has a terminal of its own

    def say(self, message: str) -> None:
        """Shows one line, unless quiet."""
        if not self.quiet:
            self.console.print(message, markup=False, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Shows one line that should not be missed, quiet or not."""
        self.warned.append(message)
        self.console.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)

    def tell(self, news: object) -> None:
        """Takes in a word or an epoch as it comes; a terminal is told enough by the rest."""
        del news

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps, note) for a piece of work; a `total` of None is unknown."""
        if self.quiet:
            yield _nothing
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
        done, shown = 0, time.monotonic()

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done, shown
            done += steps
            if time.monotonic() - shown >= SECONDS_BETWEEN_LINES or done == total:
                shown = time.monotonic()
                of = "" if total is None else f" of {total}"
                self.say(f"{title}: {done}{of} {note}".rstrip())

        return advance


def _nothing(steps: int = 1, note: str = "") -> None:
    del steps, note


SILENT = Reporter(quiet=True)
