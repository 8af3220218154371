"""Commands that are killed, again and again: nothing saved is lost, and the end is the same.

Each is killed before a step that it asks of the system, such as a rename, or at a random moment;
it is started again and perhaps killed again, and in the end it is left alone.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl.support.files import recover_folder
from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import ForkServer
from tests.helpers.saved_runs import same_run

LONGEST_CHAIN = 4  # kills of one command before it is left alone
pytestmark = pytest.mark.slow  # so that it is not the last
Times = Callable[[int, int], int]
Check = Callable[[Outcome], None]
Command = tuple[object, ...]


def killing(chance: random.Random, steps: int, seconds: float) -> dict[str, Any]:
    """Returns a way to be killed: before one of the first steps, or in the first seconds."""
    if chance.random() < 0.7:
        return {"kill_at": chance.randint(1, steps)}
    return {"kill_after": chance.uniform(0.001, seconds)}


def kill_command(
    outcome: Outcome,
    count: int,
    server: ForkServer,
    command: Command,
    begin: Callable[[Path], None],
    lost: Callable[[Path], str],
    differs: Callable[[Path], str],
    steps: int,
    seconds: float,
) -> Outcome:
    """Kills a command so many times, in a new folder whenever it was left alone.

    `begin` makes what is there before, `lost` says what is lost after a kill, and `differs` what is
    different in the end; both return "" if all is well.
    """
    chance, number = random.Random(outcome.attack), 0
    while outcome.count < count:
        number += 1
        folder = server.folder / f"{outcome.attack} {number}"
        folder.mkdir()
        begin(folder)
        kills = list[dict[str, Any]]()
        for _ in range(min(chance.randint(1, LONGEST_CHAIN), count - outcome.count)):
            kills.append(killing(chance, steps, seconds))
            ended = server.run(*command, folder=folder, cache=folder / "cache", **kills[-1])
            outcome.peak = max(outcome.peak, ended.peak)
            killed = ended.killed or "by the signal SIGKILL" in ended.out  # it, or a worker
            outcome.count += killed
            if not killed and (ended.code not in (0, 2) or "Traceback" in ended.err):
                outcome.failures.append(f"{kills}: {ended.code}, {ended.err}")
            if problem := lost(folder):
                outcome.failures.append(f"{kills}: {problem}")
            if not killed:  # it had fewer steps
                break
        ended = server.run(*command, folder=folder, cache=folder / "cache")
        # A fit that was killed after it had saved its run does not replace that.
        if ended.code and "already contains a saved run" not in ended.err:
            outcome.failures.append(f"{kills}, then {ended.code}: {ended.err}")
        elif problem := differs(folder):
            outcome.failures.append(f"{kills}: {problem}")
        else:
            shutil.rmtree(folder)
    return outcome


@pytest.fixture(scope="module")
def undisturbed(server: ForkServer, fit: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the runs of two seeds and the cache that they were computed with."""
    root = tmp_path_factory.mktemp("undisturbed")
    for seed in (1, 2):
        out = ("--seed", seed, "--out", root / f"run{seed}")
        ended = server.run(*fit, *out, folder=root, cache=root / "cache")
        assert ended.code == 0, ended.err
    return root


def hidden(folder: Path) -> list[str]:
    """Returns what is left beside the results, other than the cache and files of one write."""
    return [path.name for path in folder.glob(".*")]


def kill_fits(count: int, server: ForkServer, fit: Command, undisturbed: Path) -> Outcome:
    """Kills fits, three of four with the features of images in the cache."""
    numbers = iter(range(10 * count))

    def begin(folder: Path) -> None:
        if next(numbers) % 4:
            shutil.copytree(undisturbed / "cache" / "images", folder / "cache" / "images")

    def lost(folder: Path) -> str:
        run = folder / "run"
        return "" if not run.exists() or same_run(run, undisturbed / "run1") else "half a run"

    def differs(folder: Path) -> str:
        if left := hidden(folder):
            return f"left: {left}"
        return "" if same_run(folder / "run", undisturbed / "run1") else "another run"

    outcome = Outcome("kill: fit")
    command = (*fit, "--seed", 1, "--out", "run")
    return kill_command(outcome, count, server, command, begin, lost, differs, 90, 0.7)


def kill_overwrites(count: int, server: ForkServer, fit: Command, undisturbed: Path) -> Outcome:
    """Kills fits that replace a run by another one."""

    def begin(folder: Path) -> None:
        shutil.copytree(undisturbed / "cache", folder / "cache")
        shutil.copytree(undisturbed / "run1", folder / "run")

    def lost(folder: Path) -> str:
        recover_folder(folder / "run")  # as every command that reads it does
        runs = [undisturbed / name for name in ("run1", "run2")]
        whole = (folder / "run").exists() and any(same_run(folder / "run", run) for run in runs)
        return "" if whole else "neither the old run nor the new one"

    def differs(folder: Path) -> str:
        if left := hidden(folder):
            return f"left: {left}"
        return "" if same_run(folder / "run", undisturbed / "run2") else "another run"

    outcome = Outcome("kill: fit --overwrite")
    command = (*fit, "--seed", 2, "--out", "run", "--overwrite")
    return kill_command(outcome, count, server, command, begin, lost, differs, 70, 0.6)


@pytest.fixture(scope="module")
def grid(data: Path) -> Command:
    """Returns a command of a grid of two runs."""
    settings = ("--words", "0,1", "--shots", 2, "--epochs", 2, "--interval", 1, "--views", 0)
    words = ("--words-file", data.parent / "words.txt", "--device", "cpu")
    name = ("bench", "base-to-novel", "--datasets", data, "--arms", "words")
    return (*name, *settings, *words, "--out", "grid", "--retry-failed", "--quiet")


@pytest.fixture(scope="module")
def whole(server: ForkServer, grid: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the grid, done by one process without a kill, and its cache."""
    folder = tmp_path_factory.mktemp("whole")
    ended = server.run(*grid, folder=folder, cache=folder / "cache")
    assert ended.code == 0, ended.err
    return folder


def kill_benches(
    count: int, jobs: int, server: ForkServer, grid: Command, whole: Path, steps: int
) -> Outcome:
    """Kills grids, and their worker processes."""
    command = (*grid, "--jobs", jobs)
    done: dict[Path, bytes] = {}

    def begin(folder: Path) -> None:
        done.clear()
        shutil.copytree(whole / "cache" / "images", folder / "cache" / "images")

    def lost(folder: Path) -> str:
        gone = [path.name for path in done if not path.exists() or path.read_bytes() != done[path]]
        for path in folder.glob("grid/records/[!.]*.json"):
            if json.loads(path.read_bytes())["status"] == "done":
                done[path] = path.read_bytes()
        return f"lost: {gone}" if gone else ""

    def differs(folder: Path) -> str:
        return lost(folder) or ("" if _records(folder) == _records(whole) else "other records")

    outcome = Outcome(f"kill: bench --jobs {jobs}")
    return kill_command(outcome, count, server, command, begin, lost, differs, steps, 1.0)


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


def test_fits(
    server: ForkServer, fit: Command, undisturbed: Path, times: Times, check: Check
) -> None:
    check(kill_fits(times(4, 400), server, fit, undisturbed))


def test_overwrites(
    server: ForkServer, fit: Command, undisturbed: Path, times: Times, check: Check
) -> None:
    check(kill_overwrites(times(4, 250), server, fit, undisturbed))


@pytest.mark.parametrize(("jobs", "few", "many", "steps"), [(1, 2, 100, 80), (2, 1, 50, 40)])
def test_benches(
    jobs: int,
    few: int,
    many: int,
    steps: int,
    server: ForkServer,
    grid: Command,
    whole: Path,
    times: Times,
    check: Check,
) -> None:
    check(kill_benches(times(few, many), jobs, server, grid, whole, steps))
