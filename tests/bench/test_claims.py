"""Claims: processes that share a folder, and processes that are killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.bench.grid import Finished, ReportProgress, RunQueue, run_grid
from ipl.bench.records import RunRecord, read_records
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

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[Finished]:
        while (run := queue.take()) is not None:
            with open(self.log, "a") as file:
                file.write(f"{run.id}\n")
            time.sleep(self.seconds)
            record = RunRecord.failed(run, "")
            yield run, replace(record, error=None, accuracy={"base": 0.5, "novel": 0.5})


def fork(action: Callable[[], object]) -> int:
    """Returns the id of a process that does something and ends."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def test_eight_processes_share_a_folder_and_three_are_killed(runs: Runs, tmp_path: Path) -> None:
    """As the tasks of a Slurm array do; the last one is a task that was requeued."""
    grid, log = runs(seeds=list(range(1, 41)), words=0), tmp_path / "log"
    log.touch()
    children = [fork(lambda: run_grid(grid, tmp_path / "out", Slow(log, 0.1))) for _ in range(8)]
    while len(log.read_text().split()) < 10:
        time.sleep(0.01)
    for child, number in zip(children, (9, 15, 9), strict=False):
        os.kill(child, number)
    for child in children:
        os.waitpid(child, 0)
    result = run_grid(grid, tmp_path / "out", Slow(log))
    assert sorted(result.done) == sorted(run.id for run in grid)
    assert not result.taken
    assert len(read_records([tmp_path / "out"])[0]) == len(grid)
    assert len(log.read_text().split()) <= len(grid) + 3  # what the killed ones were at
