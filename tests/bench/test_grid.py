"""Grids: each run once, whatever happened before, meanwhile or elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import ipl.bench.grid
import ipl.bench.records
from ipl.bench.engines.local import LocalEngine
from ipl.bench.grid import Finished, ReportProgress, RunQueue, run_grid
from ipl.bench.records import RunRecord, read_records, record_path
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from ipl.support.cache import Cache
from ipl.support.errors import IplError
from ipl.support.progress import Reporter

Runs = Callable[..., tuple[Run, ...]]


class StandIn:
    """An engine that computes nothing: runs in `bad` fail, and after `most` it is interrupted."""

    def __init__(self, bad: tuple[str, ...] = (), most: int = 99) -> None:
        self.bad, self.most, self.asked = bad, most, list[str]()
        self.closed = False

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[Finished]:
        try:
            while (run := queue.take()) is not None:
                if len(self.asked) == self.most:
                    raise KeyboardInterrupt
                self.asked.append(run.id)
                report(run, "half way")
                yield run, RunRecord.failed(run, "No.") if run.id in self.bad else _done(run)
        finally:
            self.closed = True


def _done(run: Run) -> RunRecord:
    return replace(
        RunRecord.failed(run, ""),
        error=None,
        accuracy={"base": 0.5, "novel": 0.25},
        seconds={"fit": 1.0, "test": 0.5},
        notes=("Two are gone.",),
    )


@pytest.fixture
def grid(runs: Runs) -> tuple[Run, ...]:
    """Returns six runs."""
    return runs(learners="coop,kgcoop", seeds="1,2,3", words=0)


def test_what_has_a_record_is_not_done_again(grid: tuple[Run, ...], tmp_path: Path) -> None:
    first = run_grid(grid[:2], tmp_path, StandIn())
    assert first.done_now == [run.id for run in grid[:2]]
    engine = StandIn()
    second = run_grid(grid, tmp_path, engine)
    assert engine.asked == [run.id for run in grid[2:]]
    assert second.done_earlier == first.done_now
    assert second.summary == "6 of 6 runs are done, 2 of them earlier."
    assert [record.done for record in read_records([tmp_path])[0]] == [True] * 6
    third = StandIn()
    assert run_grid(grid, tmp_path, third).done_now == third.asked == []


def test_a_damaged_record_is_done_again(grid: tuple[Run, ...], tmp_path: Path) -> None:
    run_grid(grid, tmp_path, StandIn())
    halves = record_path(tmp_path, grid[0].id), record_path(tmp_path, grid[1].id)
    halves[0].write_text('{"format": 1, "id"')
    halves[1].write_text('{"format": 1}')
    (tmp_path / "records" / ".tmp.json").write_text("{")
    records, notes = read_records([tmp_path])
    assert (len(records), len(notes)) == (4, 2)
    quiet = Reporter(quiet=True, console=Console(file=StringIO()))
    result = run_grid(grid, tmp_path, StandIn(), reporter=quiet)
    assert sorted(result.done_now) == sorted(run.id for run in grid[:2])
    assert len(quiet.warnings) == 2
    assert not read_records([tmp_path])[1]


def test_runs_of_one_data_set_stay_together(runs: Runs, tmp_path: Path) -> None:
    taken: list[tuple[str, int]] = []

    class Two:
        def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[Finished]:
            last: list[Run | None] = [None, None]
            while len(queue):
                for worker in (0, 1):
                    if (run := queue.take(last[worker])) is not None:
                        last[worker] = run
                        taken.append((run.dataset, worker))
                for run in last:
                    if run is not None and run.id not in seen:
                        seen.append(run.id)
                        yield run, _done(run)

    seen: list[str] = []
    run_grid(runs(datasets="eurosat,dtd", seeds="1,2", words=0), tmp_path, Two())
    assert taken == [("eurosat", 0), ("dtd", 1)] * 2


def test_a_training_is_kept_until_its_record_is_written(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs(words=0)

    def full(*_: object) -> None:
        raise IplError("No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(ipl.bench.records, "write_json", full)
        with pytest.raises(IplError, match="No space left"):
            run_grid([run], tmp_path, LocalEngine(environment))
    assert Cache().usage()["trainings"][0] == 1
    with monkeypatch.context() as patch:  # no epoch is trained again
        patch.setattr("ipl.training.loop.make_step", full)
        assert run_grid([run], tmp_path, LocalEngine(environment)).done == [run.id]
    assert Cache().usage()["trainings"][0] == 0
    assert "checkpoints" not in json.loads(record_path(tmp_path, run.id).read_text())
