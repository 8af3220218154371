"""Claims: processes that share a folder, and processes that are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.claims import Claims
from ipl.bench.grid import FinishedRun, ReportProgress, RunQueue, run_grid
from ipl.bench.record_writing import blank
from ipl.bench.records import read_records
from ipl.bench.run import Run

Runs = Callable[..., tuple[Run, ...]]
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="makes processes by forking"),
]


class Slow:
    """An engine that takes its time and writes down, in a shared file, what it was asked."""

    def __init__(self, log: Path, seconds: float = 0.02) -> None:
        self.log, self.seconds = log, seconds

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        while (run := queue.take()) is not None:
            with open(self.log, "a") as file:
                file.write(f"{run.id}\n")
            time.sleep(self.seconds)
            done: dict[str, Any] = {"status": "done", "seconds": {"fit": self.seconds}}
            done["accuracy"] = {"base": 0.5, "novel": 0.5}
            yield FinishedRun(run, {**blank(run), **done})


def fork(action: Callable[[], object]) -> int:
    """Returns the id of a process that does something and ends."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def test_two_processes_share_a_grid_and_do_no_run_twice(runs: Runs, tmp_path: Path) -> None:
    grid, log = runs(seeds=list(range(1, 21)), words=0), tmp_path / "log"
    child = fork(lambda: run_grid(grid[::-1], tmp_path / "out", Slow(log)))
    mine = run_grid(grid, tmp_path / "out", Slow(log))
    os.waitpid(child, 0)
    asked = log.read_text().split()
    assert sorted(asked) == sorted(run.id for run in grid)
    assert 0 < len(mine.done) < len(grid)
    records, _ = read_records([tmp_path / "out"])
    assert [record.done for record in records] == [True] * len(grid)


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    def hold() -> None:
        claims = Claims(tmp_path)
        if claims.take("a"):
            (tmp_path / "held").touch()
        time.sleep(60)

    child = fork(hold)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with Claims(tmp_path) as claims:
        assert not claims.take("a")
        assert claims.take("b")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert claims.take("a")
        claims.release("a")
        assert claims.take("a")
