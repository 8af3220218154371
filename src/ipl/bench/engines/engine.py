"""What an engine is: it takes runs from a queue and yields their records, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ipl.bench.run import Run

Tell = Callable[[Run, str], None]  # how far a run has come, in a line; from any thread


@dataclass(frozen=True)
class Finished:
    """A run and its record, which may be one of failure."""

    run: Run
    record: dict[str, Any]


class Queue(Protocol):
    """The runs that are still to be done; any thread may take from it."""

    def take(self, near: Run | None = None) -> Run | None:
        """Returns a run that nobody else is at, or None if none is left.

        One of the same dataset as `near` if there is one: its features are at hand.
        """
        ...

    def __len__(self) -> int:
        """Returns how many may be left to take."""
        ...


class Engine(Protocol):
    """Something that computes runs."""

    def work(self, queue: Queue, tell: Tell) -> Iterator[Finished]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ...
