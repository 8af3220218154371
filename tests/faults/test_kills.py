"""Commands that are killed, again and again: nothing saved is lost, and the end is the same.

Each is killed before a step that it asks of the system, such as a rename, or at some moment; it is
started again and perhaps killed again, and in the end it is left alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ipl.support.files import recover_folder
from tests.helpers.forked import count_steps, kill_after, kill_at, run
from tests.helpers.saved_runs import same_run

pytestmark = pytest.mark.slow  # so that it is not the last
Command = tuple[object, ...]
Faults = list[Callable[[], None]]


def kill_and_repeat(
    command: Command, faults: Faults, folder: Path, check_nothing_lost: Callable[[], None]
) -> None:
    """Runs a command with one fault after the other, and in the end with none."""
    kills = 0
    for fault in faults:
        ended = run(*command, folder=folder, fault=fault)
        kills += ended.killed
        assert ended.killed or ended.code in (0, 2), ended.err
        assert "Traceback" not in ended.err
        check_nothing_lost()
    assert kills
    ended = run(*command, folder=folder)
    # A fit that was killed after it had saved its run does not replace that.
    assert not ended.code or "already contains a saved run" in ended.err, ended.err
    check_nothing_lost()
    assert [path.name for path in folder.glob(".*")] == []


@pytest.mark.parametrize(
    "faults",
    [
        [partial(kill_at, 7), partial(kill_at, 30), partial(kill_at, 55)],
        [partial(kill_at, 20), partial(kill_after, 0.2)],
    ],
)
def test_fits(faults: Faults, fit: Command, saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()

    def check() -> None:
        assert not (folder / "run").exists() or same_run(folder / "run", saved / "run1")

    kill_and_repeat((*fit, "--seed", 1, "--out", "run"), faults, folder, check)
    assert same_run(folder / "run", saved / "run1")


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.97])
def test_overwrites(share: float, fit: Command, saved: Path, tmp_path: Path) -> None:
    command = (*fit, "--seed", 2, "--out", "run", "--overwrite")
    for folder in (tmp_path / "counted", tmp_path / "killed"):
        shutil.copytree(saved / "cache", folder / "cache")
        shutil.copytree(saved / "run1", folder / "run")
    run(*command, folder=tmp_path / "counted", fault=partial(count_steps, tmp_path / "steps"))
    step = round(share * int((tmp_path / "steps").read_text()))

    def check() -> None:
        recover_folder(folder / "run")  # as every command that reads it does
        assert any(same_run(folder / "run", saved / name) for name in ("run1", "run2"))

    kill_and_repeat(command, [partial(kill_at, step)], folder, check)
    assert same_run(folder / "run", saved / "run2")


def test_a_bench(data: Path, tmp_path: Path) -> None:
    settings = ("--words", "0,1", "--shots", 2, "--epochs", 2, "--interval", 1, "--views", 0)
    words = ("--words-file", data.parent / "words.txt", "--device", "cpu")
    name = ("bench", "base-to-novel", "--datasets", data, "--arms", "words")
    command = (*name, *settings, *words, "--out", "grid", "--quiet")
    whole, folder = tmp_path / "whole", tmp_path / "home"
    whole.mkdir()
    folder.mkdir()
    assert run(*command, folder=whole).code == 0
    done: dict[Path, bytes] = {}

    def check() -> None:
        assert all(path.read_bytes() == content for path, content in done.items())
        done.update({path: path.read_bytes() for path in folder.glob("grid/records/[!.]*.json")})

    kill_and_repeat(command, [partial(kill_at, 10), partial(kill_at, 40)], folder, check)
    assert _records(folder) == _records(whole)


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
