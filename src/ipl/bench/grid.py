"""A grid of runs: each is done once, and those that have a record are left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ipl.bench.claims import Claims
from ipl.bench.protocols.registry import find_protocol
from ipl.bench.record_writing import write_record
from ipl.bench.records import DONE, read_record, record_path
from ipl.bench.run import Run, titles_of
from ipl.display.formatting import several
from ipl.support.errors import DataError
from ipl.support.files import check_writable
from ipl.support.progress import SILENT, Advance, Reporter

ReportProgress = Callable[[Run, str], None]  # how far a run has come; from any thread


@dataclass(frozen=True)
class FinishedRun:
    """A run and its record, which may be one of failure."""

    run: Run
    record: dict[str, Any]


class Engine(Protocol):
    """Something that computes runs."""

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ...


@dataclass
class GridResult:
    """What became of the runs of a grid, by their ids."""

    out: Path
    runs: tuple[Run, ...]
    before: list[str] = field(default_factory=list)  # done earlier, or by another process
    done: list[str] = field(default_factory=list)  # done now
    failed: dict[str, str] = field(default_factory=dict)  # now or earlier, and why
    shown: list[str] = field(default_factory=list)  # failed now, and a line has said why
    elsewhere: list[str] = field(default_factory=list)  # another process is doing them

    @property
    def all_done(self) -> list[str]:
        """Returns the runs that have a result, whoever did them and when."""
        return [*self.before, *self.done]

    @property
    def summary(self) -> str:
        """Returns a sentence on all of it."""
        runs = several(len(self.runs), "run is", "runs are")
        parts = [f"{len(self.all_done)} of {runs} done"]
        if self.before:
            parts.append(f"{len(self.before)} of them earlier")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if self.elsewhere:
            parts.append(f"{len(self.elsewhere)} left to another process")
        return ", ".join(parts) + "."

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {
            "out": str(self.out),
            "runs": len(self.runs),
            "done": sorted(self.all_done),
            "new": sorted(self.done),
            "failed": self.failed,
            "elsewhere": sorted(self.elsewhere),
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

    Parameters
    ----------
    runs : sequence of Run
        The runs.
    out : Path
        The folder of the records.
    engine : Engine
        What computes the runs.
    retry_failed : bool
        Whether runs that failed earlier are done again.
    reporter : Reporter
        Hears how far the grid has come.
    result : GridResult, optional
        Is filled in, for a caller that needs it after an interruption.

    Returns
    -------
    GridResult
        What became of the runs.
    """
    result = result or GridResult(out, tuple(runs))
    check_writable(record_path(out, "record"))
    with Claims(out) as claims:
        queue = RunQueue(runs, out, claims, retry_failed, reporter, result)
        if not len(queue):
            return result
        started, total, notes = time.monotonic(), len(queue), set[str]()
        with reporter.task("Runs", total) as advance:
            titles = titles_of(result.runs)
            work = engine.work(queue, _progress(advance, titles))
            try:
                for finished in work:
                    write_record(out, finished.record)
                    queue.finish(finished)
                    elapsed = time.monotonic() - started
                    done = total - queue.unfinished
                    left = elapsed / done * queue.unfinished
                    reporter.say(_line(titles[finished.run.id], finished, done, total, left))
                    for note in finished.record.get("notes", ()):
                        if note not in notes:  # many runs of a dataset have the same
                            notes.add(note)
                            reporter.say(f"  note: {note}")
                    advance(1)
            finally:
                if hasattr(work, "close"):
                    work.close()
        queue.check_others()
    return result


class RunQueue:
    """The runs without a record, each handed out once; any thread may take from it."""

    def __init__(
        self,
        runs: Iterable[Run],
        out: Path,
        claims: Claims,
        retry_failed: bool,
        reporter: Reporter,
        result: GridResult,
    ) -> None:
        self.out, self.claims, self.result = out, claims, result
        self.retry_failed, self.reporter = retry_failed, reporter
        self._lock = threading.Lock()
        self._busy: dict[str, Run] = {}
        self._elsewhere: dict[str, Run] = {}
        self._damaged: set[str] = set()
        self._waiting = [
            run for run in {run.id: run for run in runs}.values() if self._is_open(run)
        ]

    def __len__(self) -> int:
        """Returns how many may be left to take."""
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """Returns how many runs wait or are being done here."""
        return len(self._waiting) + len(self._busy)

    def take(self, near: Run | None = None) -> Run | None:
        """Returns a run that nobody else does; None if none is left.

        It is one of the same dataset as `near`, whose features are in memory, else of an idle one.
        """
        with self._lock:
            while self._waiting:
                run = self._next(near)
                self._waiting.remove(run)
                if not self.claims.take(run.id):
                    self._elsewhere[run.id] = run
                elif self._taken(run):
                    return run
            for run in list(self._elsewhere.values()):  # its process may have died meanwhile
                if self.claims.take(run.id):
                    del self._elsewhere[run.id]
                    if self._taken(run):
                        return run
            return None

    def _taken(self, run: Run) -> bool:
        """Returns whether a run that we have claimed has still to be done."""
        if self._is_open(run):  # another process may have done it meanwhile
            self._busy[run.id] = run
            return True
        self.claims.release(run.id)
        return False

    def _next(self, near: Run | None) -> Run:
        """Returns the run that repeats least of what another worker has in memory or searches."""
        datasets = {run.dataset for run in self._busy.values()}
        searches = {(run.dataset, run.seed) for run in self._busy.values() if run.searches}

        def cost(run: Run) -> tuple[int, bool]:
            in_memory = near is not None and run.dataset == near.dataset
            searched = run.searches and (run.dataset, run.seed) in searches
            return 0 if in_memory else 1 + (run.dataset in datasets), searched

        return min(self._waiting, key=cost)

    def finish(self, finished: FinishedRun) -> None:
        """Takes note of a run whose record is written."""
        name, error = finished.run.id, finished.record["error"]
        with self._lock:
            del self._busy[name]
            if finished.record["status"] == DONE:
                self.result.done.append(name)
                self.result.failed.pop(name, None)
            else:
                self.result.failed[name] = error
                self.result.shown += [] if self.reporter.quiet else [name]
            self.claims.release(name)

    def check_others(self) -> None:
        """Takes note of what other processes have done meanwhile."""
        self.retry_failed = False
        self.result.elsewhere = [run.id for run in self._elsewhere.values() if self._is_open(run)]

    def _is_open(self, run: Run) -> bool:
        """Returns whether a run has still to be done, and takes note if not."""
        try:
            record = read_record(record_path(self.out, run.id))
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
        self.result.before.append(run.id)
        return False


def _progress(advance: Advance, titles: dict[str, str]) -> ReportProgress:
    def report(run: Run, text: str) -> None:
        advance(0, note=f"{titles[run.id]}: {text}" if text else titles[run.id])

    return report


def _line(title: str, finished: FinishedRun, done: int, total: int, left: float) -> str:
    """Returns one line on a finished run, with the time that the others may take."""
    record, head = finished.record, f"[{done}/{total}] {title}: "
    if record["status"] != DONE:
        return f"{head}failed: {record['error']}"
    scores = find_protocol(finished.run.protocol).scores(record["accuracy"])
    parts = [f"{name} {100 * value:.1f}" for name, value in scores.items()]
    chosen = f" ({', '.join(record['chosen'])})" if record["chosen"] else ""
    seconds = sum(record["seconds"].values())
    ahead = f"; about {duration(left)} left" if done < total else ""
    return f"{head}{', '.join(parts)}{chosen}, {duration(seconds)}{ahead}"


def duration(seconds: float) -> str:
    """Returns a time as a person would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
