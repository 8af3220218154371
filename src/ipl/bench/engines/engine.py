"""What an engine is: it takes runs from a queue and yields their records, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ipl.bench.run import Run

ReportProgress = Callable[[Run, str], None]  # how far a run has come; from any thread


@dataclass(frozen=True)
class FinishedRun:
    """A run and its record, which may be one of failure."""

    run: Run
    record: dict[str, Any]


class Queue(Protocol):
    """The runs that are still to be done; any thread may take from it."""

    def take(self, near: Run | None = None) -> Run | None:
        """Returns a run that nobody else does, or None if none is left.

        It is one of the same dataset as `near`, if there is one: its features are in memory.
        """
        ...

    def __len__(self) -> int:
        """Returns how many may be left to take."""
        ...


class Engine(Protocol):
    """Something that computes runs."""

    def work(self, queue: Queue, report: ReportProgress) -> Iterator[FinishedRun]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ...
