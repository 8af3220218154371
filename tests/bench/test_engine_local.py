"""Worker processes: real runs in several at once, and what happens when one is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipl.bench.engines import worker_process as process
from ipl.bench.engines.local import LocalEngine
from ipl.bench.engines.worker_process import visible_gpus
from ipl.bench.grid import FinishedRun, ReportProgress, RunQueue, run_grid
from ipl.bench.records import record_path
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import IplError

Runs = Callable[..., tuple[Run, ...]]
ANSWER = """
import sys, json
sys.stdin.readline()
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    run = json.loads(line)
    if run["config"]["seed"] == 2:
        print("a last word", file=sys.stderr)
        sys.exit(3)
    print(json.dumps({"note": "at it"}), flush=True)
    print(json.dumps(%s), flush=True)
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Returns a setter of what workers answer; none of them loads anything."""
    return lambda answer: monkeypatch.setattr(process, "COMMAND", ANSWER % answer)


class Cruel:
    """An engine that kills the first worker of its crew that has begun."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine, self.killed = engine, list[Run]()

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        def watch(run: Run, text: str) -> None:
            if text and not self.killed:
                self.killed.append(run)
                _kill_a_worker()

        return self.engine.work(queue, watch)


def _kill_a_worker() -> None:
    """Kills the first of the worker processes that this one has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"PPid:\t{os.getpid()}\n" in (folder / "status").read_text()
            worker = b"engines.worker" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if ours and worker:
            os.kill(int(folder.name), signal.SIGKILL)
            return
    raise AssertionError("no worker process found")


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
    here = Runner(environment).record(done)
    for name in ("id", "status", "accuracy", "data", "settings", "backbone"):
        assert there[name] == here[name]  # the numbers of this process


@pytest.mark.faults
def test_the_last_words_of_a_worker_are_kept(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, stand_in: Callable[[str], None]
) -> None:
    stand_in(
        '{"record": {"status": "done", "accuracy": {"base": 1, "novel": 1}, "chosen": [], '
        '"error": None, "seconds": {"fit": 1}, "id": "seed%d" % run["config"]["seed"]}}'
    )
    grid = runs(words=0, seeds="1,2,3,4")
    result = run_grid(grid, tmp_path, LocalEngine(environment, jobs=2))
    assert sorted(result.done) == sorted(one.id for one in grid if one.seed != 2)
    (error,) = result.failed.values()
    assert error == "The worker process died with exit code 3: a last word"


def test_what_is_no_runs_own_fault_ends_the_grid(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, stand_in: Callable[[str], None]
) -> None:
    stand_in('{"refused": "No backbone is called x."}')
    with pytest.raises(IplError, match="No backbone is called x"):
        run_grid(runs(words=0, seeds="1,3,4"), tmp_path, LocalEngine(environment, jobs=2))
    assert not list(tmp_path.glob("records/*"))


def test_workers_that_cannot_start_end_the_grid(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "COMMAND", "import no_such_package")
    with pytest.raises(IplError, match="No worker can be started here.*no_such_package"):
        run_grid(runs(words=0, seeds="1,2,3"), tmp_path, LocalEngine(environment, jobs=2))
    assert not list(tmp_path.glob("records/*"))


def test_gpus_to_spread_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5ab")
    assert visible_gpus("auto") == ["3", "GPU-5ab"]
    assert visible_gpus("cpu") == visible_gpus("cuda:1") == []
