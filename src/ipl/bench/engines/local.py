"""Runs on this machine: in this process, or in several that share its cores and GPUs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait

import torch

from ipl.bench.grid import Finished, ReportProgress, RunQueue
from ipl.bench.records import RunRecord
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import IplError
from ipl.support.machine import cores
from ipl.support.progress import Advance, Reporter

SECONDS_BETWEEN_NOTES = 1.0


class LocalEngine:
    """Does one run after the other in this process; with several jobs, in worker processes.

    A worker that dies takes its own run with it and no other: a new one is started.
    """

    def __init__(self, environment: RunEnvironment, jobs: int = 1) -> None:
        self.environment, self.jobs = environment, jobs

    def work(self, queue: RunQueue, report: ReportProgress) -> Finished:
        if self.jobs == 1:
            return self._in_this_process(queue, report)
        return self._in_workers(queue, report)

    def _in_this_process(self, queue: RunQueue, report: ReportProgress) -> Finished:
        run: Run | None = None
        runner = Runner(
            self.environment, ForwardingReporter(lambda text: report(run, text) if run else None)
        )
        while (run := queue.take(run)) is not None:
            report(run, "")
            yield run, runner.execute(run)

    def _in_workers(self, queue: RunQueue, report: ReportProgress) -> Finished:
        gpus = visible_gpus(self.environment.device)
        environment = replace(self.environment, jobs=self.jobs)
        workers = [
            Worker(environment, gpus[number % len(gpus)] if gpus else None)
            for number in range(min(self.jobs, len(queue)))
        ]
        try:
            while True:
                for worker in workers:
                    if worker.run is None and (run := queue.take(worker.last)) is not None:
                        worker.start(run)
                        report(run, "")
                busy = {worker.pipe: worker for worker in workers if worker.run is not None}
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    run, answer = worker.last, worker.answer()
                    assert run is not None
                    if isinstance(answer, str):
                        report(run, answer)
                    else:
                        yield run, answer
        finally:
            for worker in workers:
                worker.stop()


class Worker:
    """A process with its share of the cores, on one GPU if there are any."""

    pipe: Connection

    def __init__(self, environment: RunEnvironment, gpu: str | None) -> None:
        self.environment, self.gpu = environment, gpu
        self.run: Run | None = None  # that it is doing
        self.last: Run | None = None
        self._process: multiprocessing.process.BaseProcess | None = None
        self._has_answered = False

    def start(self, run: Run) -> None:
        """Hands it a run, in a new process if there is none."""
        if self._process is None:
            self._start_process()
        self.run = self.last = run
        with suppress(OSError):  # it has died, which reading its answer says
            self.pipe.send(run)

    def _start_process(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other_end = context.Pipe()
        threads = max(1, cores() // self.environment.jobs)
        values = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        if self.gpu is not None:
            values["CUDA_VISIBLE_DEVICES"] = self.gpu
        process = context.Process(target=_serve, args=(other_end, self.environment, threads))
        with _environment_variables(values):  # what reads them is imported there
            process.start()
        other_end.close()
        self._process, self._has_answered = process, False

    def answer(self) -> str | RunRecord:
        """How far its run has come, or the record of it, which may be that of its death.

        It raises the IplError of a worker that says that every run would fail.
        """
        assert self.run is not None
        try:
            answer: str | RunRecord | IplError = self.pipe.recv()
            self._has_answered = True
        except (EOFError, OSError):
            answer = self._buried(self.run)
        if isinstance(answer, IplError):
            raise answer
        if isinstance(answer, RunRecord):
            self.run = None
        return answer

    def _buried(self, run: Run) -> RunRecord:
        """The record of the run that it died with."""
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        self.stop()
        if code < 0:
            hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
            reason = f"by the signal {signal.Signals(-code).name}{hint}"
        elif self._has_answered:
            reason = f"with exit code {code}"
        else:  # as would every other
            raise IplError(f"No worker process can be started here (exit code {code}).")
        return RunRecord.failed(run, f"The worker process died {reason}.")

    def stop(self) -> None:
        """Ends the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.pipe.close()
            self._process = None


def _serve(pipe: Connection, environment: RunEnvironment, threads: int) -> None:
    """Does runs in a worker process; answers with notes, and with a record or an IplError."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    os.dup2(2, 1)  # what a library prints must not get into the parent's output
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    runner = Runner(environment, ForwardingReporter(pipe.send))
    pipe.send("")
    while True:
        run: Run = pipe.recv()
        try:
            pipe.send(runner.execute(run))
        except IplError as error:  # a missing backbone, device or learner: no run can be done
            pipe.send(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # at once, in the middle of whatever is computed


@contextmanager
def _environment_variables(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class ForwardingReporter(Reporter):
    """Forwards short notes on how far a run has come; warnings are collected, not shown."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(quiet=True)
        self._note = note
        self._last_note = 0.0

    def say(self, message: str) -> None:
        """Shows nothing: the one line of a run is for the notes."""

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        done = 0

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done
            done += steps
            if time.monotonic() - self._last_note >= SECONDS_BETWEEN_NOTES:
                self._last_note = time.monotonic()
                self._note(f"{title.lower()} {done} of {total} {note}".rstrip())

        yield advance


def visible_gpus(device: str) -> list[str]:
    """The GPUs to spread workers over; none if a device was named, or there are none."""
    if device not in ("auto", "cuda"):
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return [gpu.strip() for gpu in named.split(",") if gpu.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]
