"""Worker processes: real runs in several at once, and what happens when one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ipl.bench.engines.local import LocalEngine, visible_gpus
from ipl.bench.grid import Finished, ReportProgress, RunQueue, run_grid
from ipl.bench.records import record_path
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import IplError
from ipl.support.machine import child_environment

Runs = Callable[..., tuple[Run, ...]]


class Cruel:
    """An engine that kills the first worker of its crew that has begun."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine, self.killed = engine, list[Run]()

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[Finished]:
        def watch(run: Run, text: str) -> None:
            if text and not self.killed:
                self.killed.append(run)
                _kill_a_worker()

        return self.engine.work(queue, watch)


def _kill_a_worker() -> None:
    os.kill(_workers_of(os.getpid())[0], signal.SIGKILL)


def _workers_of(parent: int) -> list[int]:
    """Returns the worker processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            its_own = f"PPid:\t{parent}\n" in (folder / "status").read_text()
            if its_own and b"multiprocessing.spawn" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def _running(process: int) -> bool:
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    return False


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="finds processes in /proc")
def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    options = "--datasets scenes --arms plain --words 0 --shots 1 --epochs 5000 --seeds 1,2"
    command = [sys.executable, "-m", "ipl", "bench", "base-to-novel", *options.split()]
    command += ["--views", "0", "--jobs", "2", "--device", "cpu", "--out", str(tmp_path)]
    parent = subprocess.Popen(command, env=child_environment(OMP_NUM_THREADS="1"))
    workers, end = list[int](), time.monotonic() + 120
    while len(workers) < 2 and time.monotonic() < end:
        time.sleep(0.1)
        workers = _workers_of(parent.pid)
    time.sleep(5)  # one may still be starting, the other one at work
    parent.kill()
    parent.wait()
    while any(map(_running, workers)) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(workers) == 2
    assert not any(map(_running, workers))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="finds processes in /proc")
def test_a_worker_that_is_killed_costs_its_run_and_no_other(
    runs: Runs, environment: RunEnvironment, tmp_path: Path
) -> None:
    grid = runs(seeds="1,2", words=0, epochs=300)  # long enough to be killed
    engine = Cruel(LocalEngine(environment, jobs=2))
    result = run_grid(grid, tmp_path, engine)
    assert len(engine.killed) == 1
    (error,) = result.failed.values()
    assert error.startswith("The worker process died by the signal SIGKILL")
    assert len(result.done) == 1
    (done,) = (run for run in grid if run.id in result.done)
    there = json.loads(record_path(tmp_path, done.id).read_text())
    here = Runner(environment).execute(done).as_dict()
    for name in ("id", "status", "accuracy", "data", "settings", "backbone"):
        assert there[name] == here[name]  # the numbers of this process


@pytest.mark.slow
def test_what_is_no_runs_own_fault_ends_the_grid(
    runs: Runs, environment: RunEnvironment, tmp_path: Path
) -> None:
    nowhere = runs(words=0, seeds="1,2", backbone="nothing")
    with pytest.raises(IplError, match="There is no backbone or folder"):
        run_grid(nowhere, tmp_path, LocalEngine(environment, jobs=2))
    assert not list(tmp_path.glob("records/*"))


def test_gpus_to_spread_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5ab")
    assert visible_gpus("auto") == ["3", "GPU-5ab"]
    assert visible_gpus("cpu") == visible_gpus("cuda:1") == []
