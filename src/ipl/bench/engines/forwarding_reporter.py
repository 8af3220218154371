"""A reporter that passes on how far a run has come, for a display that shows many runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ipl.support.progress import Advance, Reporter

SECONDS_BETWEEN_NOTES = 1.0


class ForwardingReporter(Reporter):
    """Tells in short notes; warnings are kept, because a record holds them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(quiet=True)
        self._note = note
        self._told = 0.0

    def say(self, message: str) -> None:
        """Shows nothing: there is one line for a run, and it is the note's."""

    def warn(self, message: str) -> None:
        """Keeps the warning."""
        self.warnings.append(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps, note), which tells no more than once a second."""
        done = 0

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done
            done += steps
            if time.monotonic() - self._told >= SECONDS_BETWEEN_NOTES:
                self._told = time.monotonic()
                self._note(f"{title.lower()} {done} of {total} {note}".rstrip())

        yield advance
