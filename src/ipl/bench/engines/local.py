"""Runs on this machine: in this process, or in several that share its cores and GPUs."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Iterator

from ipl.bench.engines.engine import Finished, Queue, Tell
from ipl.bench.engines.forwarding_reporter import ForwardingReporter
from ipl.bench.engines.worker_process import DiedError, WorkerProcess, visible_gpus
from ipl.bench.records import failure
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import ConfigError


class LocalEngine:
    """One run after the other here with one job; with more, as many worker processes.

    A worker that dies takes its own run with it and no other: a new one takes its place.
    """

    def __init__(self, place: RunEnvironment, jobs: int = 1) -> None:
        if jobs < 1:
            raise ConfigError(f"jobs is {jobs}; it must be 1 or more.")
        self.place, self.jobs = place, jobs

    def work(self, queue: Queue, tell: Tell) -> Iterator[Finished]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        if self.jobs == 1:
            return self._here(queue, tell)
        return _Crew(self.place, self.jobs, queue, tell).work()

    def _here(self, queue: Queue, tell: Tell) -> Iterator[Finished]:
        run: Run | None = None
        bench = Runner(
            self.place, ForwardingReporter(lambda text: tell(run, text) if run else None)
        )
        while (run := queue.take(run)) is not None:
            tell(run, "")
            yield Finished(run, bench.record(run))


class _Crew:
    """Worker processes, and a thread for each that hands it runs."""

    def __init__(self, place: RunEnvironment, jobs: int, queue: Queue, tell: Tell) -> None:
        self.place, self.jobs, self.queue, self.tell = place, jobs, queue, tell
        self.gpus = visible_gpus(place.device)
        self.results: queues.Queue[Finished | BaseException | None] = queues.Queue()
        self.workers: dict[int, WorkerProcess] = {}
        self.stopping = False
        self._lock = threading.Lock()

    def work(self) -> Iterator[Finished]:
        """Yields what the workers finish; the first error that is no run's own ends it all."""
        threads = [
            threading.Thread(target=self._serve, args=(number,), daemon=True)
            for number in range(min(self.jobs, max(1, len(self.queue))))
        ]
        try:
            for thread in threads:
                thread.start()
            left = len(threads)
            while left:
                result = self.results.get()
                if isinstance(result, BaseException):
                    raise result
                if result is None:
                    left -= 1
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
                self.tell(run, "")
                try:
                    record = worker.record(run, self.tell)
                except DiedError as error:
                    if self.stopping:
                        break
                    self._dismiss(number)
                    last, record = None, failure(run, str(error))
                self.results.put(Finished(run, record))
            self.results.put(None)
        except BaseException as error:  # for the thread that waits
            self.results.put(error)

    def _worker(self, number: int) -> WorkerProcess | None:
        with self._lock:
            if self.stopping:
                return None
            if number not in self.workers:
                gpu = self.gpus[number % len(self.gpus)] if self.gpus else None
                self.workers[number] = WorkerProcess(self.place, self.jobs, gpu)
            return self.workers[number]

    def _dismiss(self, number: int) -> None:
        with self._lock:
            self.workers.pop(number).stop()

    def _stop(self) -> None:
        with self._lock:
            self.stopping = True
            for worker in self.workers.values():
                worker.stop()
