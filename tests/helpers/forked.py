"""`ipl` in processes that are forked from one that has imported it: they start at once.

A fault is set up in the process that is to suffer it; a fork of the tests' own process would not
do, because autograd does not work in a fork of a process that has trained.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

SECONDS = 120  # until a command counts as hanging
# What writing asks of the system.
STEPS = ("replace", "fsync", "chmod", "unlink", "rmdir", "open", "mkdir")
ROOT = Path(__file__).parents[2]
NUMBERS = count(1)


# -- faults ---------------------------------------------------------------------------------------


def _before_each_step(action: Callable[[int], None]) -> None:
    """Calls `action` with 1, 2, 3, ... before each step of this process from now on."""
    numbers = count(1)

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            action(next(numbers))
            return real(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def kill_at(step: int) -> None:
    """Lets this process be killed before its n-th step."""

    def act(number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    _before_each_step(act)


def kill_after(seconds: float) -> None:
    """Lets the system end this process in so many seconds, without a word to Python."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def fail_from(step: int, error: int) -> None:
    """Lets every step from the n-th on fail, as on a disk that is full or read-only."""

    def act(number: int) -> None:
        if number >= step:
            raise OSError(error, os.strerror(error))

    _before_each_step(act)


def limit_files(size: int) -> None:
    """Lets every write beyond a file's first bytes fail, as on a disk that is full."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def limit_open_files(number: int) -> None:
    """Lets this process have no more files and connections open."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a command ended; the code is negative for a signal."""

    code: int | None
    out: str
    err: str

    @property
    def killed(self) -> bool:
        """Returns whether it was killed, as it was meant to be."""
        return self.code in (-signal.SIGKILL, -signal.SIGALRM)


class Command:
    """`ipl COMMAND...`, running in a folder with its own cache."""

    def __init__(
        self, *command: object, folder: Path, fault: Callable[[], None] | None = None
    ) -> None:
        self.output = folder.parent / f"output {next(NUMBERS)}"
        self.output.mkdir()
        for name in ("out", "err"):
            (self.output / name).touch()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.helpers.forked_imports"])
        paths = [str(ROOT), *sys.path]  # for the process that is forked
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(paths))
            patch.setenv("OMP_NUM_THREADS", "1")
            arguments = ([*map(str, command)], folder, self.output, fault)
            self.process = context.Process(target=_run, args=arguments)
            self.process.start()
        atexit.register(self.process.kill)  # or the tests would wait for it if one has failed

    def line(self, text: str) -> str:
        """Returns the line of its error output that has a text, once there is one."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and self.process.is_alive():
            lines = (self.output / "err").read_text(errors="replace").splitlines(keepends=True)
            for line in lines:
                if text in line and line.endswith("\n"):
                    return line
            time.sleep(0.01)
        raise AssertionError((self.output / "err").read_text(errors="replace"))

    def end(self, number: signal.Signals) -> Ended:
        """Sends a signal, and returns how it ended."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        return self.wait()

    def wait(self) -> Ended:
        """Returns how it ended."""
        self.process.join(SECONDS)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError("The command hangs.")
        out, err = ((self.output / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(self.process.exitcode, out, err)


def run(*command: object, folder: Path, fault: Callable[[], None] | None = None) -> Ended:
    """Returns how `ipl COMMAND...` ended."""
    return Command(*command, folder=folder, fault=fault).wait()


def _run(command: list[str], folder: Path, output: Path, fault: Callable[[], None] | None) -> None:
    import torch

    from ipl.cli.main import main

    for number, file in ((1, output / "out"), (2, output / "err")):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    os.chdir(folder)
    os.environ["IPL_CACHE"] = str(folder / "cache")
    # After a fork torch makes its pool of threads anew, at the first use of any thread: two threads
    # that come first at the same time would find none.
    torch.set_num_threads(1)
    sys.argv = ["ipl", *command]
    if fault is not None:
        fault()
    main()
