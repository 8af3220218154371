"""Disks that are full, read-only or broken, and many writers of the same names."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.forked import Command, fail_from, limit_files, run
from tests.helpers.saved_runs import same_run

NEW = ("--seed", 1, "--out", "new")
REPLACED = ("--seed", 1, "--out", "run1", "--overwrite")
FAULTS = [
    (NEW, partial(fail_from, 3, errno.EROFS)),
    (NEW, partial(fail_from, 40, errno.ENOSPC)),
    (NEW, partial(limit_files, 4000)),
    (REPLACED, partial(fail_from, 20, errno.EIO)),
    (REPLACED, partial(limit_files, 20_000)),
]


@pytest.mark.parametrize(("where", "fault"), FAULTS)
def test_a_disk_that_fails(
    where: tuple[object, ...],
    fault: Callable[[], None],
    fit: tuple[object, ...],
    saved: Path,
    tmp_path: Path,
) -> None:
    """The fit ends with one sentence or its result, and succeeds when the disk works again."""
    home = tmp_path / "home"
    shutil.copytree(saved, home)
    ended = run(*fit, *where, folder=home, fault=fault)
    assert ended.code in (0, 2), ended.err
    assert "Traceback" not in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("error: ")]) <= 1
    assert same_run(home / "run1", saved / "run1")  # kept, or replaced by the same run
    if ended.code:
        assert {path.name for path in home.glob("[!.]*")} == {"run1", "run2", "cache"}
    if ended.code or list(home.glob(".*")):  # the disk may fail when the result is in place
        more = () if ended.code else ("--overwrite",)
        again = run(*fit, *where, *more, folder=home)
        assert again.code == 0, again.err
    # Temporary files that the disk did not let go stay for a day.
    assert [path for path in home.glob(".*") if path.suffix != ".tmp"] == []
    assert same_run(home / str(where[3]), saved / "run1")


def test_fits_at_once(fit: tuple[object, ...], saved: Path, tmp_path: Path) -> None:
    """Each is saved, in a folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    started = [Command(*fit, "--json", folder=home) for _ in range(4)]
    ended = [each.wait() for each in started]
    assert [each.code for each in ended] == [0] * 4, ended
    said = sorted(json.loads(each.out)["out"] for each in ended)
    there = sorted(f"ipl-runs/{name}" for name in os.listdir(home / "ipl-runs"))
    assert said == there
    assert len(set(there)) == 4
    assert all(same_run(home / name, saved / "run1") for name in there)


def test_fits_into_one_folder(fit: tuple[object, ...], saved: Path, tmp_path: Path) -> None:
    """One is saved, and the others are told."""
    home = tmp_path / "home"
    home.mkdir()
    started = [Command(*fit, "--out", "one", folder=home) for _ in range(4)]
    ended = [each.wait() for each in started]
    assert sorted(each.code or 0 for each in ended) == [0, 2, 2, 2], ended
    for each in ended:
        told = "is being written" in each.err or "already contains a saved run" in each.err
        assert told == (each.code == 2), each.err
    assert same_run(home / "one", saved / "run1")
    assert {*os.listdir(home)} == {"one", "cache"}
