"""What an engine is: it takes runs from a queue and yields their records, in any order."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Callable, Iterator, Sequence
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


Results = queues.Queue[FinishedRun | BaseException | None]  # None: a thread has ended


def collect_results(threads: Sequence[threading.Thread], results: Results) -> Iterator[FinishedRun]:
    """Starts threads and yields the runs that they finish, until all have ended.

    The first error that one of them hands over is raised.
    """
    for thread in threads:
        thread.start()
    running = len(threads)
    while running:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        if result is None:
            running -= 1
        else:
            yield result


class Engine(Protocol):
    """Something that computes runs."""

    def work(self, queue: Queue, report: ReportProgress) -> Iterator[FinishedRun]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ...
