"""Runs in threads that take turns: the same records as one after the other."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ipl.bench.engines import make_engine
from ipl.bench.engines.engine import FinishedRun
from ipl.bench.engines.thread_engine import ThreadEngine
from ipl.bench.grid import run_grid
from ipl.bench.records import record_path
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import ConfigError

Runs = Callable[..., tuple[Run, ...]]


def test_records_are_those_of_one_run_after_the_other(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = runs(datasets="eurosat,dtd", learners="coop,maple", seeds="1,2", words="0,1", epochs=2)
    at_once = []
    record = Runner.record
    busy: list[str] = []

    def watched(self: Runner, run: Run) -> dict:  # type: ignore[type-arg]
        busy.append(run.dataset)
        at_once.append(tuple(busy))
        try:
            return record(self, run)
        finally:
            busy.remove(run.dataset)

    monkeypatch.setattr(Runner, "record", watched)
    result = run_grid(grid, tmp_path, ThreadEngine(environment, 3))
    assert sorted(result.done) == sorted(run.id for run in grid)
    assert {len(names) for names in at_once} == {1, 2, 3}
    assert all(len(set(names)) == 1 for names in at_once)  # one dataset in memory
    monkeypatch.setattr(Runner, "record", record)
    for run in grid[:4]:
        there = json.loads(record_path(tmp_path, run.id).read_text())
        here = Runner(environment).record(run)
        assert there["accuracy"] == here["accuracy"]
        assert there["chosen"] == here["chosen"]
        losses = [epoch["loss"] for epoch in here["history"]["epochs"]]
        assert [e["loss"] for e in there["history"]["epochs"]] == losses


def test_joined_records_are_those_of_each_alone_up_to_rounding(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, joined: list[int]
) -> None:
    """Seeds and arms with as many words are one step; the plain learner has other shapes."""
    grid = runs(seeds="1,2", arms="plain,empty,words", words="1", epochs=2)
    result = run_grid(grid, tmp_path, ThreadEngine(environment, 6, joins=True))
    assert sorted(result.done) == sorted(run.id for run in grid)
    assert max(joined) == 4
    for run in grid:
        there = json.loads(record_path(tmp_path, run.id).read_text())
        here = Runner(environment).record(run)
        assert there["chosen"] == here["chosen"]
        losses = [epoch["loss"] for epoch in here["history"]["epochs"]]
        found = [epoch["loss"] for epoch in there["history"]["epochs"]]
        assert found == pytest.approx(losses, rel=1e-4)


def test_a_record_has_its_own_notes_only(
    runs: Runs, environment: RunEnvironment, tmp_path: Path
) -> None:
    """Only runs that search read the list of words, which has one that cannot be used."""
    (tmp_path / "words.txt").write_text("sand\nwater\nnot-a-word\nstone\nwall\n")
    words_file = str(tmp_path / "words.txt")
    grid = runs(seeds="1,2,3", words="0,1", epochs=8, words_file=words_file)
    run_grid(grid, tmp_path / "out", ThreadEngine(environment, 6))
    for run in grid:
        record = json.loads(record_path(tmp_path / "out", run.id).read_text())
        assert any("not-a-word" in note for note in record["notes"]) == bool(run.words)


@pytest.mark.parametrize("joins", [False, True])
def test_a_run_that_fails_costs_no_other(
    runs: Runs,
    environment: RunEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    joins: bool,
) -> None:
    grid = runs(seeds="1,2,3", words=0, epochs=3)
    fitted = Runner._fitted

    def fails(self: Runner, run: Run, *rest: object) -> object:
        if run.seed == 2:
            raise RuntimeError("a bug")
        return fitted(self, run, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Runner, "_fitted", fails)
    result = run_grid(grid, tmp_path, ThreadEngine(environment, 3, joins))
    assert list(result.failed.values()) == ["RuntimeError: a bug"]
    assert len(result.done) == 2


@pytest.mark.parametrize("joins", [False, True])
def test_closing_it_ends_the_threads(runs: Runs, environment: RunEnvironment, joins: bool) -> None:
    waiting = list(runs(seeds="1,2,3,4", words=0, epochs=400))

    class Waiting:
        def take(self, near: Run | None = None) -> Run | None:
            return waiting.pop(0) if waiting else None

        def __len__(self) -> int:
            return len(waiting)

    before = threading.active_count()
    short = waiting.pop(0)
    waiting.insert(0, runs(seeds="5", words=0, epochs=1)[0])
    waiting.append(short)
    work = ThreadEngine(environment, 2, joins).work(Waiting(), lambda run, text: None)
    first = next(work)
    assert isinstance(first, FinishedRun)
    assert first.run.seed == 5
    work.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("engine", ["threads", "joined"])
def test_it_needs_a_gpu(environment: RunEnvironment, device: str, engine: str) -> None:
    if torch.cuda.is_available() and device == "auto":
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match="share one NVIDIA GPU, but the device is"):
        make_engine(engine, replace(environment, device=device), 2)
