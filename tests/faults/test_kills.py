"""Commands that are killed, again and again: nothing saved is lost, and the end is the same.

Each is killed before a step that it asks of the system, such as a rename, or at some moment; it is
started again and perhaps killed again, and in the end it is left alone.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.forked import kill_after, kill_at, run
from tests.helpers.saved_runs import same_run

pytestmark = pytest.mark.slow  # so that it is not the last
Command = tuple[object, ...]
Faults = list[Callable[[], None]]
Times = Callable[[int, int], int]


def some_kills(chance: random.Random, steps: int, seconds: float) -> Faults:
    """Returns one to four kills: before one of the first steps, or in the first seconds."""
    return [
        partial(kill_at, chance.randint(1, steps))
        if chance.random() < 0.7
        else partial(kill_after, chance.uniform(0.001, seconds))
        for _ in range(chance.randint(1, 4))
    ]


def kill_and_repeat(
    command: Command, faults: Faults, folder: Path, check_nothing_lost: Callable[[], None]
) -> int:
    """Runs a command with one fault after the other, and in the end with none; counts the kills."""
    kills = 0
    for fault in faults:
        ended = run(*command, folder=folder, fault=fault)
        kills += ended.killed
        assert ended.killed or ended.code in (0, 2), (faults, ended.err)
        assert "Traceback" not in ended.err, faults
        check_nothing_lost()
    ended = run(*command, folder=folder)
    # A fit that was killed after it had saved its run does not replace that.
    assert not ended.code or "already contains a saved run" in ended.err, (faults, ended.err)
    check_nothing_lost()
    assert [path.name for path in folder.glob(".*")] == [], faults
    return kills


def test_fits(fit: Command, saved: Path, tmp_path: Path, times: Times) -> None:
    chance = random.Random(0)
    chains: list[Faults] = [
        [partial(kill_at, 7), partial(kill_at, 30), partial(kill_at, 55)],
        [partial(kill_at, 20), partial(kill_after, 0.2)],
        *(some_kills(chance, 90, 0.7) for _ in range(times(0, 150))),
    ]
    kills = 0
    for number, faults in enumerate(chains):
        folder = tmp_path / str(number)
        folder.mkdir()
        if number % 4:
            shutil.copytree(saved / "cache" / "images", folder / "cache" / "images")

        def check(out: Path = folder / "run") -> None:
            assert not out.exists() or same_run(out, saved / "run1")

        kills += kill_and_repeat((*fit, "--seed", 1, "--out", "run"), faults, folder, check)
        assert same_run(folder / "run", saved / "run1")
    assert kills >= len(chains)


def test_fits_of_several_seeds(fit: Command, saved: Path, tmp_path: Path, times: Times) -> None:
    """A seed that is saved is not trained again."""
    chance, steps = random.Random(2), (40, 90, 130)
    chains: list[Faults] = [
        [partial(kill_at, step) for step in steps],
        *(some_kills(chance, 150, 1.4) for _ in range(times(0, 30))),
    ]
    for number, faults in enumerate(chains):
        folder = tmp_path / str(number)
        folder.mkdir()

        def check(folder: Path = folder) -> None:
            for seed in (1, 2):
                out = folder / f"run-seed{seed}"
                assert not out.exists() or same_run(out, saved / f"run{seed}")

        kill_and_repeat((*fit, "--seeds", "1,2", "--out", "run"), faults, folder, check)
        assert {path.name for path in folder.glob("run*")} == {"run-seed1", "run-seed2"}


@pytest.fixture(scope="module")
def grid(data: Path) -> Command:
    """Returns a command of a grid of four runs."""
    settings = ("--words", "0,1", "--shots", 2, "--epochs", 2, "--interval", 1, "--views", 0)
    words = ("--words-file", data.parent / "words.txt", "--device", "cpu", "--seeds", "1,2")
    name = ("bench", "base-to-novel", "--datasets", data, "--arms", "words")
    return (*name, *settings, *words, "--out", "grid", "--quiet")


@pytest.fixture(scope="module")
def whole(grid: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the grid, done by one process without a kill, and its cache."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(*grid, folder=folder).code == 0
    return folder


@pytest.mark.parametrize(("jobs", "first"), [(1, (10, 40)), (2, (25,))])
def test_a_bench(
    jobs: int, first: tuple[int, ...], grid: Command, whole: Path, tmp_path: Path, times: Times
) -> None:
    """With several jobs the process that is killed is the one that the others work for."""
    chance = random.Random(jobs)
    chains: list[Faults] = [
        [partial(kill_at, step) for step in first],
        *(some_kills(chance, 40, 2.0 if jobs == 1 else 10.0) for _ in range(times(0, 50 // jobs))),
    ]
    kills = 0
    for number, faults in enumerate(chains):
        folder = tmp_path / str(number)
        shutil.copytree(whole / "cache" / "images", folder / "cache" / "images")
        done: dict[Path, bytes] = {}

        def check(folder: Path = folder, done: dict[Path, bytes] = done) -> None:
            assert all(path.read_bytes() == content for path, content in done.items())
            records = folder.glob("grid/records/[!.]*.json")
            done.update({path: path.read_bytes() for path in records})

        kills += kill_and_repeat((*grid, "--jobs", jobs), faults, folder, check)
        assert _records(folder) == _records(whole)
    assert kills >= len(chains)


def _records(folder: Path) -> list[dict[str, Any]]:
    """Returns the records without what depends on the time and the process."""
    records = []
    for path in sorted(folder.glob("grid/records/[!.]*.json")):
        record = json.loads(path.read_bytes())
        for name in ("seconds", "peak_memory", "time"):
            del record[name]
        del record["history"]["seconds"]
        for step in (record["selection"] or {"steps": ()})["steps"]:
            del step["seconds"]
        records.append(record)
    return records
