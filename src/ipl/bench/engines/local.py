"""Runs on this machine: in this process, or in several that share its cores and GPUs."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Iterator

from ipl.bench.engines.forwarding_reporter import ForwardingReporter
from ipl.bench.engines.worker_process import DiedError, WorkerProcess, visible_gpus
from ipl.bench.grid import FinishedRun, ReportProgress, RunQueue
from ipl.bench.record_writing import failure
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner


class LocalEngine:
    """Does one run after the other in this process; with several jobs, in worker processes.

    A worker that dies takes its own run with it and no other: a new one is started.
    """

    def __init__(self, environment: RunEnvironment, jobs: int = 1) -> None:
        self.environment, self.jobs = environment, jobs

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        if self.jobs == 1:
            return self._in_this_process(queue, report)
        return _Workers(self.environment, self.jobs, queue, report).work()

    def _in_this_process(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        run: Run | None = None
        runner = Runner(
            self.environment, ForwardingReporter(lambda text: report(run, text) if run else None)
        )
        while (run := queue.take(run)) is not None:
            report(run, "")
            yield FinishedRun(run, runner.record(run))


class _Workers:
    """Worker processes, and a thread for each that hands it runs."""

    def __init__(
        self, environment: RunEnvironment, jobs: int, queue: RunQueue, report: ReportProgress
    ) -> None:
        self.environment, self.jobs, self.queue, self.report = environment, jobs, queue, report
        self.gpus = visible_gpus(environment.device)
        self.results: queues.Queue[FinishedRun | BaseException | None] = queues.Queue()
        self.workers: dict[int, WorkerProcess] = {}
        self.stopping = False
        self._lock = threading.Lock()

    def work(self) -> Iterator[FinishedRun]:
        """Yields what the workers finish; the first error that is not one run's own is raised."""
        threads = [
            threading.Thread(target=self._serve, args=(number,), daemon=True)
            for number in range(min(self.jobs, max(1, len(self.queue))))
        ]
        try:
            for thread in threads:
                thread.start()
            running = len(threads)
            while running:
                result = self.results.get()
                if isinstance(result, BaseException):
                    raise result
                if result is None:  # a thread has ended
                    running -= 1
                else:
                    yield result
        finally:
            self._stop()
            for thread in threads:
                thread.join(timeout=10)

    def _serve(self, number: int) -> None:
        """Hands runs to one worker after the other, until no run is left."""
        try:
            last: Run | None = None
            while not self.stopping and (run := self.queue.take(last)) is not None:
                worker = self._worker(number)
                if worker is None:
                    break
                last = run
                self.report(run, "")
                try:
                    record = worker.record(run, self.report)
                except DiedError as error:
                    if self.stopping:
                        break
                    self._dismiss(number)
                    last, record = None, failure(run, str(error))
                self.results.put(FinishedRun(run, record))
            self.results.put(None)
        except BaseException as error:  # for the thread that waits
            self.results.put(error)

    def _worker(self, number: int) -> WorkerProcess | None:
        with self._lock:
            if self.stopping:
                return None
            if number not in self.workers:
                gpu = self.gpus[number % len(self.gpus)] if self.gpus else None
                self.workers[number] = WorkerProcess(self.environment, self.jobs, gpu)
            return self.workers[number]

    def _dismiss(self, number: int) -> None:
        with self._lock:
            self.workers.pop(number).stop()

    def _stop(self) -> None:
        with self._lock:
            self.stopping = True
            for worker in self.workers.values():
                worker.stop()
