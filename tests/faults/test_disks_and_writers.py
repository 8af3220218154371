"""Disks that are full, read-only or broken, and many writers of the same names."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import ForkServer
from tests.helpers.mutations import problem
from tests.helpers.saved_runs import same_run

Times = Callable[[int, int], int]
Check = Callable[[Outcome], None]
Command = tuple[object, ...]
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES)


def disk_fault(chance: random.Random) -> dict[str, Any]:
    """Returns a fault of the disk: each write fails from some point on, or beyond some size."""
    if chance.random() < 0.3:
        return {"limit_files": chance.choice((4000, 8000, 20_000, 100_000))}
    return {"fail_from": [chance.randint(1, 60), chance.choice(ERRORS)]}


def spoil_disks(count: int, server: ForkServer, fit: Command, run: Path) -> Outcome:
    """Lets the disk fail under commands that write.

    Each must end with one sentence, or with its result; a saved run stays as it was or is replaced
    as a whole, and the same command succeeds when the disk works again.
    """
    chance, outcome = random.Random(0), Outcome("disk: full, read-only or broken")
    commands: list[Command] = [
        (*fit, "--out", "new"),
        (*fit, "--out", "run", "--overwrite"),
        (
            "predict",
            "run",
            run.parent / "image.png",
            "--out",
            "a.csv",
            "--device",
            "cpu",
            "--quiet",
        ),
        ("export", "run", "--to", "text", "--out", "prompt.txt", "--quiet"),
    ]
    for number in range(count):
        home, command = server.folder / f"disk {number}", commands[number % len(commands)]
        shutil.copytree(run, home / "run")
        shutil.copytree(run.parent / "cache", home / "cache")
        fault = disk_fault(chance)
        ended = server.run(*command, folder=home, cache=home / "cache", **fault)
        outcome.count += 1
        outcome.peak = max(outcome.peak, ended.peak)
        wrong = problem(ended.code, ended.err)
        if not same_run(home / "run", run):
            wrong = "the saved run is another one"
        if ended.code:
            left = {"run", "cache"} ^ {path.name for path in home.iterdir()}
            if left - {path.name for path in home.glob(".*")}:  # what cannot even be removed
                wrong = f"left: {sorted(left)}"
        if ended.code or list(home.glob(".*")):  # the disk may fail when the result is in place
            more = () if ended.code else ("--overwrite",)
            again = server.run(*command, *more, folder=home, cache=home / "cache")
            wrong = wrong or problem(again.code, again.err) or ("fails again" if again.code else "")
            # Temporary files that the disk did not let go stay for a day.
            if [path for path in home.glob(".*") if path.suffix != ".tmp"]:
                wrong = wrong or f"left: {sorted(os.listdir(home))}"
        if "new" in command and not wrong and not same_run(home / "new", run):
            wrong = "another run"
        if wrong:
            outcome.failures.append(f"{command[0]}, {fault}: {wrong}: {ended.err}")
        shutil.rmtree(home)
    return outcome


def fit_at_once(count: int, server: ForkServer, fit: Command, run: Path, home: Path) -> Outcome:
    """Starts so many fits of the same name at once: each must be saved, in a folder of its own."""
    outcome = Outcome("writers: fits at once with a free name", count)
    started = [
        server.start(*fit, "--json", folder=home, cache=home / "cache") for _ in range(count)
    ]
    ended = [each.wait() for each in started]
    outcome.failures += [f"{each.code}: {each.err}" for each in ended if each.code != 0]
    outcome.peak = max(each.peak for each in ended)
    said = sorted(json.loads(each.out)["out"] for each in ended if each.code == 0)
    there = sorted(f"ipl-runs/{name}" for name in os.listdir(home / "ipl-runs"))
    if said != there or len({*there}) != count:
        outcome.failures.append(f"said: {said}, there: {there}")
    outcome.failures += [name for name in there if not same_run(home / name, run)]
    return outcome


def fit_into_one(count: int, server: ForkServer, fit: Command, run: Path, home: Path) -> Outcome:
    """Starts so many fits with one --out at once: one is saved, the others are told."""
    outcome = Outcome("writers: fits at once with one --out", count)
    command = (*fit, "--out", "one")
    started = [server.start(*command, folder=home, cache=home / "cache") for _ in range(count)]
    ended = [each.wait() for each in started]
    outcome.peak = max(each.peak for each in ended)
    for each in ended:
        told = "is being written" in each.err or "already contains a saved run" in each.err
        if each.code != 0 and not (each.code == 2 and told):
            outcome.failures.append(f"{each.code}: {each.err}")
    saved = [each.code for each in ended].count(0)
    if saved != 1 or not same_run(home / "one", run):
        outcome.failures.append(f"{saved} fits say that they saved the run")
    if left := sorted({*os.listdir(home)} - {"one", "cache"}):
        outcome.failures.append(f"left: {left}")
    return outcome


def test_disks(
    server: ForkServer, fit: Command, run: Path, data: Path, times: Times, check: Check
) -> None:
    shutil.copy(data / "beach" / "0.png", run.parent / "image.png")
    check(spoil_disks(times(6, 400), server, fit, run))


def test_fits_at_once(
    server: ForkServer, fit: Command, run: Path, tmp_path: Path, times: Times, check: Check
) -> None:
    check(fit_at_once(times(4, 24), server, fit, run, tmp_path))


def test_fits_into_one_folder(
    server: ForkServer, fit: Command, run: Path, tmp_path: Path, times: Times, check: Check
) -> None:
    check(fit_into_one(times(4, 24), server, fit, run, tmp_path))
