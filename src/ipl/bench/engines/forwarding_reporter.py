"""A reporter that forwards how far a run has come, for a display of many runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ipl.support.progress import Advance, Reporter

SECONDS_BETWEEN_NOTES = 1.0


class ForwardingReporter(Reporter):
    """Forwards short notes at most once a second; warnings are collected, not shown."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(quiet=True)
        self._note = note
        self._last_note = 0.0

    def say(self, message: str) -> None:
        """Shows nothing: the one line of a run is for the notes."""

    def warn(self, message: str) -> None:
        """Collects the warning."""
        self.warnings.append(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps, note), which forwards at most once a second."""
        done = 0

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done
            done += steps
            if time.monotonic() - self._last_note >= SECONDS_BETWEEN_NOTES:
                self._last_note = time.monotonic()
                self._note(f"{title.lower()} {done} of {total} {note}".rstrip())

        yield advance
