"""Grids: each run once, whatever happened before, meanwhile or elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import ipl.bench.grid
import ipl.bench.record_writing
from ipl.bench.claims import Claims
from ipl.bench.engines.local import LocalEngine
from ipl.bench.grid import FinishedRun, GridResult, ReportProgress, RunQueue, run_grid
from ipl.bench.record_writing import blank, failure, write_record
from ipl.bench.records import read_record, read_records, record_path
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

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
        try:
            while (run := queue.take()) is not None:
                if len(self.asked) == self.most:
                    raise KeyboardInterrupt
                self.asked.append(run.id)
                report(run, "half way")
                yield FinishedRun(run, failure(run, "No.") if run.id in self.bad else _done(run))
        finally:
            self.closed = True


def _done(run: Run) -> dict[str, Any]:
    accuracy = {"base": 0.5, "novel": 0.25}
    seconds = {"fit": 1.0, "test": 0.5}
    done = {"status": "done", "accuracy": accuracy, "seconds": seconds}
    return {**blank(run), **done, "notes": ["Two are gone."]}


@pytest.fixture
def grid(runs: Runs) -> tuple[Run, ...]:
    """Returns six runs."""
    return runs(learners="coop,kgcoop", seeds="1,2,3", words=0)


def test_what_has_a_record_is_not_done_again(grid: tuple[Run, ...], tmp_path: Path) -> None:
    first = run_grid(grid[:2], tmp_path, StandIn())
    assert first.done == [run.id for run in grid[:2]]
    engine = StandIn()
    second = run_grid(grid, tmp_path, engine)
    assert engine.asked == [run.id for run in grid[2:]]
    assert second.before == first.done
    assert second.summary == "6 of 6 runs are done, 2 of them earlier."
    assert [record.done for record in read_records([tmp_path])[0]] == [True] * 6
    third = StandIn()
    assert run_grid(grid, tmp_path, third).done == third.asked == []


def test_an_interruption_keeps_what_is_done(grid: tuple[Run, ...], tmp_path: Path) -> None:
    result, engine = GridResult(tmp_path, grid), StandIn(most=3)
    with pytest.raises(KeyboardInterrupt):
        run_grid(grid, tmp_path, engine, result=result)
    assert engine.closed
    assert result.summary == "3 of 6 runs are done."
    assert len(list((tmp_path / "records").iterdir())) == 3
    assert len(run_grid(grid, tmp_path, StandIn()).done) == 3


def test_a_failure_is_recorded_and_left_alone_until_asked(
    grid: tuple[Run, ...], tmp_path: Path
) -> None:
    bad = grid[1].id
    first = run_grid(grid, tmp_path, StandIn(bad=(bad,)))
    assert first.failed == {bad: "No."}
    assert len(first.done) == 5
    record = read_record(record_path(tmp_path, bad))
    assert record is not None
    assert (record.status, record.error) == ("failed", "No.")
    engine = StandIn()
    second = run_grid(grid, tmp_path, engine)
    assert (second.failed, engine.asked) == ({bad: "No."}, [])
    third = run_grid(grid, tmp_path, engine, retry_failed=True)
    assert (third.failed, third.done, engine.asked) == ({}, [bad], [bad])


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
    assert sorted(result.done) == sorted(run.id for run in grid[:2])
    assert len(quiet.warnings) == 2
    assert not read_records([tmp_path])[1]


def test_runs_of_one_data_set_stay_together(runs: Runs, tmp_path: Path) -> None:
    taken: list[tuple[str, int]] = []

    class Two:
        def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[FinishedRun]:
            last: list[Run | None] = [None, None]
            while len(queue):
                for worker in (0, 1):
                    if (run := queue.take(last[worker])) is not None:
                        last[worker] = run
                        taken.append((run.dataset, worker))
                for run in last:
                    if run is not None and run.id not in seen:
                        seen.append(run.id)
                        yield FinishedRun(run, _done(run))

    seen: list[str] = []
    run_grid(runs(datasets="eurosat,dtd", seeds="1,2", words=0), tmp_path, Two())
    assert taken == [("eurosat", 0), ("dtd", 1)] * 2


def test_what_another_process_does_meanwhile_is_not_done_again(
    grid: tuple[Run, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Claims.take

    def other(self: Claims, run_id: str) -> bool:  # another process does two runs of ours
        if run_id in (grid[0].id, grid[1].id):
            write_record(tmp_path, _done(next(run for run in grid if run.id == run_id)))
        return run_id != grid[0].id and take(self, run_id)

    monkeypatch.setattr(Claims, "take", other)
    result = run_grid(grid, tmp_path, StandIn())
    assert sorted(result.before) == sorted(run.id for run in grid[:2])
    assert result.as_dict()["done"] == sorted(run.id for run in grid)
    assert result.as_dict()["new"] == sorted(run.id for run in grid[2:])


def test_a_run_whose_process_died_is_done_at_the_end(
    grid: tuple[Run, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, asked = Claims.take, []

    def once(self: Claims, run_id: str) -> bool:  # somebody has it at first, and dies
        asked.append(run_id)
        return (run_id != grid[0].id or asked.count(run_id) > 1) and take(self, run_id)

    monkeypatch.setattr(Claims, "take", once)
    engine = StandIn()
    result = run_grid(grid, tmp_path, engine)
    assert not result.elsewhere
    assert engine.asked[-1] == grid[0].id
    assert sorted(result.done) == sorted(run.id for run in grid)


def test_a_full_disk_loses_nothing_that_was_done(
    grid: tuple[Run, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ipl.bench.grid.write_record

    def full(out: Path, record: dict[str, Any]) -> None:
        if len(list((tmp_path / "records").glob("*"))) >= 2:
            raise IplError(f"Cannot write {out}: No space left on device.")
        write(out, record)

    monkeypatch.setattr(ipl.bench.grid, "write_record", full)
    result, engine = GridResult(tmp_path, grid), StandIn()
    with pytest.raises(IplError, match="No space left"):
        run_grid(grid, tmp_path, engine, result=result)
    assert engine.closed
    assert len(result.done) == len(read_records([tmp_path])[0]) == 2
    monkeypatch.undo()
    assert len(run_grid(grid, tmp_path, StandIn()).done) == 4


def test_a_training_is_kept_until_its_record_is_written(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs(words=0)

    def full(*_: object) -> None:
        raise IplError("No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(ipl.bench.record_writing, "write_json", full)
        with pytest.raises(IplError, match="No space left"):
            run_grid([run], tmp_path, LocalEngine(environment))
    assert Cache().usage()["trainings"][0] == 1
    with monkeypatch.context() as patch:  # no epoch is trained again
        patch.setattr("ipl.training.loop.make_step", full)
        assert run_grid([run], tmp_path, LocalEngine(environment)).done == [run.id]
    assert Cache().usage()["trainings"][0] == 0
    assert "checkpoints" not in json.loads(record_path(tmp_path, run.id).read_text())


def test_a_line_for_each_run_and_the_time_left(grid: tuple[Run, ...], tmp_path: Path) -> None:
    shown = StringIO()
    reporter = Reporter(console=Console(file=shown, width=200))
    run_grid(grid, tmp_path, StandIn(bad=(grid[2].id,)), reporter=reporter)
    lines = [line for line in shown.getvalue().splitlines() if line.startswith("[")]
    assert len(lines) == 6
    title = "eurosat, coop, no words, seed 1"
    assert lines[0].startswith(f"[1/6] {title}: base 50.0, novel 25.0, HM 33.3, 2 s; about")
    assert lines[2].endswith("failed: No.")
    assert "left" not in lines[5]
    assert shown.getvalue().count("note: Two are gone.") == 1  # all runs say it
