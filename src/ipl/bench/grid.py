"""A grid of runs: each is done once, and those that have a record are left alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ipl.bench.claims import Claims
from ipl.bench.records import RunRecord, read_record, record_path, write_record
from ipl.bench.run import Run, titles_of
from ipl.display.formatting import several
from ipl.support.errors import DataError
from ipl.support.files import check_writable
from ipl.support.progress import SILENT, Reporter

ReportProgress = Callable[[Run, str], None]  # how far a run has come
Finished = Generator[tuple[Run, RunRecord], None, None]  # the record may be one of failure


class Engine(Protocol):
    """Something that computes runs."""

    def work(self, queue: RunQueue, report: ReportProgress) -> Finished:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ...


@dataclass
class GridResult:
    """What became of the runs of a grid, by their ids."""

    out: Path
    runs: tuple[Run, ...]
    done_earlier: list[str] = field(default_factory=list)  # or by another process
    done_now: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # now or earlier, and why
    failed_now: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)  # another process is doing them

    @property
    def done(self) -> list[str]:
        return [*self.done_earlier, *self.done_now]

    @property
    def summary(self) -> str:
        runs = several(len(self.runs), "run is", "runs are")
        parts = [f"{len(self.done)} of {runs} done"]
        if self.done_earlier:
            parts.append(f"{len(self.done_earlier)} of them earlier")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if self.taken:
            parts.append(f"{len(self.taken)} left to another process")
        return ", ".join(parts) + "."

    def as_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "runs": len(self.runs),
            "done": sorted(self.done),
            "new": sorted(self.done_now),
            "failed": self.failed,
            "elsewhere": sorted(self.taken),
        }


def run_grid(
    runs: Sequence[Run],
    out: Path,
    engine: Engine,
    retry_failed: bool = False,
    reporter: Reporter = SILENT,
    result: GridResult | None = None,
) -> GridResult:
    """Does the runs that have no record yet, and writes the record of each to OUT/records.

    `result` is filled in, for a caller that needs it after an interruption.
    """
    result = result or GridResult(out, tuple(runs))
    check_writable(record_path(out, "record"))
    titles = titles_of(result.runs)
    with Claims(out) as claims:
        queue = RunQueue(claims, retry_failed, reporter, result)
        if not (total := len(queue)):
            return result
        started, told = time.monotonic(), set[str]()
        with reporter.task("Runs", total) as advance:

            def report(run: Run, text: str) -> None:
                advance(0, note=f"{titles[run.id]}: {text}" if text else titles[run.id])

            with closing(engine.work(queue, report)) as work:
                for run, record in work:
                    write_record(out, record)
                    queue.finish(run, record)
                    done = total - queue.unfinished
                    left = (time.monotonic() - started) / done * queue.unfinished
                    ahead = f"; about {duration(left)} left" if done < total else ""
                    reporter.say(f"[{done}/{total}] {titles[run.id]}: {_told(run, record)}{ahead}")
                    for note in record.notes:
                        if note not in told:  # many runs of a dataset have the same
                            told.add(note)
                            reporter.say(f"  note: {note}")
                    advance(1)
        queue.check_taken()
    return result


class RunQueue:
    """The runs without a record, each handed out once."""

    def __init__(
        self, claims: Claims, retry_failed: bool, reporter: Reporter, result: GridResult
    ) -> None:
        self.claims, self.retry_failed = claims, retry_failed
        self.reporter, self.result = reporter, result
        self._busy: dict[str, Run] = {}
        self._taken: dict[str, Run] = {}  # by others, when we tried
        self._damaged: set[str] = set()
        every = {run.id: run for run in result.runs}.values()
        self._waiting = [run for run in every if self._is_open(run)]

    def __len__(self) -> int:
        """How many may be left to take."""
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """How many runs wait or are being done here."""
        return len(self._waiting) + len(self._busy) + len(self._taken)

    def take(self, near: Run | None = None) -> Run | None:
        """A run that nobody else does; None if none is left.

        It is one of the same dataset as `near`, whose features are in memory, else of an idle one.
        """
        while self._waiting:
            run = self._next(near)
            self._waiting.remove(run)
            if not self.claims.take(run.training):
                self._taken[run.id] = run
            elif self._begin(run):
                return run
        for run in list(self._taken.values()):  # its process may have ended meanwhile
            if self.claims.take(run.training):
                del self._taken[run.id]
                if self._begin(run):
                    return run
        return None

    def finish(self, run: Run, record: RunRecord) -> None:
        """Takes note of a run whose record is written."""
        del self._busy[run.id]
        if record.error is None:
            self.result.done_now.append(run.id)
            self.result.failed.pop(run.id, None)
        else:
            self.result.failed[run.id] = record.error
            self.result.failed_now.append(run.id)
        self.claims.release(run.training)

    def check_taken(self) -> None:
        """Takes note of what other processes have done meanwhile."""
        self.retry_failed = False
        self.result.taken = [run.id for run in self._taken.values() if self._is_open(run)]

    def _begin(self, run: Run) -> bool:
        """Whether a run that we have claimed has still to be done."""
        if self._is_open(run):  # another process may have done it meanwhile
            self._busy[run.id] = run
            return True
        self.claims.release(run.training)
        return False

    def _next(self, near: Run | None) -> Run:
        """The run that repeats least of what another worker has in memory or searches."""
        datasets = {run.dataset for run in self._busy.values()}
        searches = {(run.dataset, run.seed) for run in self._busy.values() if run.searches}

        def cost(run: Run) -> tuple[int, bool]:
            in_memory = near is not None and run.dataset == near.dataset
            searched = run.searches and (run.dataset, run.seed) in searches
            return 0 if in_memory else 1 + (run.dataset in datasets), searched

        return min(self._waiting, key=cost)

    def _is_open(self, run: Run) -> bool:
        """Whether a run has still to be done; takes note if not."""
        try:
            record = read_record(record_path(self.result.out, run.id))
        except DataError as error:
            if run.id not in self._damaged:  # it is read twice
                self.reporter.warn(f"{error} It is done again.")
            self._damaged.add(run.id)
            return True
        if record is None:
            return True
        if record.error is not None:
            self.result.failed[run.id] = record.error
            return self.retry_failed
        self.result.failed.pop(run.id, None)
        self.result.done_earlier.append(run.id)
        return False


def _told(run: Run, record: RunRecord) -> str:
    """What a finished run came to, in one line."""
    if record.error is not None:
        return f"failed: {record.error}"
    scores = run.rules.scores(record.accuracy)
    parts = [f"{name} {100 * value:.1f}" for name, value in scores.items()]
    chosen = f" ({', '.join(record.chosen)})" if record.chosen else ""
    return f"{', '.join(parts)}{chosen}, {duration(sum(record.seconds.values()))}"


def duration(seconds: float) -> str:
    """A time as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
