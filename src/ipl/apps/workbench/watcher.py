"""What a fit tells as it goes, kept so that another thread can read it, and a way to stop it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ipl.support.progress import Advance, Reporter
from ipl.training.result import EpochRecord
from ipl.words.selection import Selection


class Cancelled(Exception):
    """The person does not want to wait any longer."""


@dataclass(frozen=True)
class Progress:
    """How far a fit has come."""

    title: str = ""  # of the piece of work at hand
    done: int = 0
    total: int | None = None
    note: str = ""
    selection: Selection | None = None  # the words so far
    epochs: tuple[EpochRecord, ...] = ()
    said: str = ""  # the last line
    number: int = 0  # of changes so far


class FitWatcher(Reporter):
    """Takes in what a fit reports; a fit that was cancelled ends at its next report."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._lock = threading.Lock()
        self._progress = Progress()
        self._cancelled = threading.Event()

    @property
    def progress(self) -> Progress:
        """Returns how far it has come."""
        return self._progress

    @property
    def cancelled(self) -> bool:
        """Returns whether it shall stop."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Makes the fit stop at its next report."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises Cancelled if the fit shall stop."""
        if self.cancelled:
            raise Cancelled

    def say(self, message: str) -> None:
        """Keeps the line."""
        self._change(said=message)

    def warn(self, message: str) -> None:
        """Keeps the warning; it is shown on the page and not in the terminal."""
        self.warnings.append(message)

    def record_event(self, event: object) -> None:
        """Takes in the words so far, or an epoch."""
        if isinstance(event, Selection):
            self._change(selection=event)
        elif isinstance(event, EpochRecord):  # training that starts again repeats its first epochs
            self._change(epochs=(*self._progress.epochs[: event.epoch], event))
        self.check()

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps, note) for a piece of work."""
        self.check()
        self._change(title=title, done=0, total=total, note="")

        def advance(steps: int = 1, note: str = "") -> None:
            self._change(done=self._progress.done + steps, note=note)
            self.check()

        yield advance

    def _change(self, **values: object) -> None:
        with self._lock:
            number = self._progress.number + 1
            self._progress = replace(self._progress, number=number, **values)  # type: ignore[arg-type]
