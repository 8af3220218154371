"""Runs at the same time on one GPU: threads of this process that take turns."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Iterator
from contextlib import nullcontext

from ipl.bench.engines.engine import (
    FinishedRun,
    Queue,
    ReportProgress,
    Results,
    collect_results,
)
from ipl.bench.engines.forwarding_reporter import ForwardingReporter
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.turns import StoppedError, Turns
from ipl.training.joined_steps import JoinedSteps


class ThreadEngine:
    """Does runs in threads that share the backbone and the features of one dataset at a time.

    Each gives the GPU a step of its training and passes on. Small steps leave most of a GPU idle,
    which the steps of other runs fill; processes would have it one after the other. With `joins`,
    steps of the same shapes (those of seeds, and of arms with as many words) are computed as one,
    which is faster and changes the last bits of the results.
    """

    def __init__(self, environment: RunEnvironment, jobs: int = 1, joins: bool = False) -> None:
        self.environment, self.jobs, self.joins = environment, jobs, joins

    def work(self, queue: Queue, report: ReportProgress) -> Iterator[FinishedRun]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        return _RunThreads(self.environment, self.jobs, self.joins, queue, report).work()


class _RunThreads:
    """The threads of one grid."""

    def __init__(
        self,
        environment: RunEnvironment,
        jobs: int,
        joins: bool,
        queue: Queue,
        report: ReportProgress,
    ) -> None:
        self.jobs, self.queue, self.report = jobs, queue, report
        self.steps = JoinedSteps() if joins else None
        self.runner = Runner(environment, ForwardingReporter(self._forward))
        self.results: Results = queues.Queue()
        self.turns = Turns()
        self._busy: dict[int, Run] = {}  # by thread
        self._last: Run | None = None
        self._done = threading.Event()  # a run has ended since somebody looked

    def work(self) -> Iterator[FinishedRun]:
        """Yields what the threads finish; the first error that is not one run's own is raised."""
        threads = [
            threading.Thread(target=self._serve, daemon=True)
            for _ in range(min(self.jobs, max(1, len(self.queue))))
        ]
        try:
            yield from collect_results(threads, self.results)
        finally:
            self.turns.stopped = True
            for thread in threads:
                thread.join(timeout=60)

    def _serve(self) -> None:
        """Does one run after the other, until none is left."""
        try:
            with self.turns, self.steps.entered() if self.steps else nullcontext():
                while (run := self._take()) is not None:
                    self.report(run, "")
                    try:
                        record = self.runner.record(run)
                    finally:
                        del self._busy[threading.get_ident()]
                        self._done.set()
                    self.results.put(FinishedRun(run, record))
            self.results.put(None)
        except StoppedError:
            pass
        except BaseException as error:  # for the thread that waits
            self.results.put(error)

    def _take(self) -> Run | None:
        """Returns a run, once no other thread has another dataset or backbone in memory."""
        if self.turns.stopped or (run := self.queue.take(self._last)) is None:
            return None
        self._last = run
        while any(_in_memory(other) != _in_memory(run) for other in self._busy.values()):
            self._done.clear()
            with self.turns.given_back():
                self._done.wait()
            self.turns.pass_on()
        self._busy[threading.get_ident()] = run
        return run

    def _forward(self, note: str) -> None:
        run = self._busy.get(threading.get_ident())
        if run is not None:
            self.report(run, note)


def _in_memory(run: Run) -> tuple[str, str, str]:
    """Returns what a Runner has in memory for a run."""
    return run.backbone, run.precision, run.dataset
