"""A process that imports ipl once and forks commands, which start at once and can be killed.

Lines of JSON in, lines of JSON out: {"start": {...}} -> {"process": id}, and {"wait": id,
"seconds": n} -> {"code": exit code, "peak": bytes}. It trains nothing itself, because autograd does
not work in a process that was forked from one that has trained.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120.0  # until a command counts as hanging
HANGS = "hangs"
# What writing asks of the system.
STEPS = ("replace", "fsync", "chmod", "unlink", "rmdir", "open", "mkdir")


# -- faults, set up in the process that is to suffer them -----------------------------------------


def count_steps(action: Callable[[int], None]) -> None:
    """Calls `action` with 1, 2, 3, ... before each step of this process from now on."""
    number = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal number
            number += 1
            action(number)
            return real(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def kill_at(step: int) -> None:
    """Lets this process be killed before its n-th step."""

    def act(number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    count_steps(act)


def kill_after(seconds: float) -> None:
    """Lets the system end this process in so many seconds, without a word to Python."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def fail_from(step: int, error: int) -> None:
    """Lets every step from the n-th on fail, as on a disk that is full or read-only."""

    def act(number: int) -> None:
        if number >= step:
            raise OSError(error, os.strerror(error))

    count_steps(act)


def limit_files(size: int) -> None:
    """Lets every write beyond a file's first bytes fail, as on a disk that is full."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def limit_memory(more: int) -> None:
    """Allows this process so many bytes more than it has."""
    import resource

    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + more, has + more))


FAULTS = {
    each.__name__: each for each in (kill_at, kill_after, fail_from, limit_files, limit_memory)
}


# -- seen from a test -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | str  # negative for a signal, or "hangs"
    out: str
    err: str
    peak: int  # bytes of memory

    @property
    def killed(self) -> bool:
        """Returns whether it was killed, as it was meant to be."""
        return self.code in (-signal.SIGKILL, -signal.SIGALRM)


class Command:
    """A command that is running."""

    def __init__(self, server: ForkServer, process: int, folder: Path) -> None:
        self.server, self.process, self.folder = server, process, folder

    def line(self, text: str) -> str:
        """Returns the line of its error output that has a text, once there is one."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for line in (self.folder / "err").read_text().splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line
            time.sleep(0.01)
        raise AssertionError((self.folder / "err").read_text())

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Returns how it ended; after so many seconds it is killed."""
        answer = self.server.ask({"wait": self.process, "seconds": seconds})
        out, err = ((self.folder / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(answer["code"], out, err, answer["peak"])


class ForkServer:
    """The server, started once for many commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number = folder, 0
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        (folder / "temporary").mkdir()
        settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "temporary")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def start(
        self,
        *command: object,
        folder: Path,
        cache: Path,
        call: str = "ipl.cli.main:main",
        **faults: Any,
    ) -> Command:
        """Starts `ipl COMMAND...` in a folder; a fault is the name of a function in FAULTS."""
        self._number += 1
        output = self.folder / str(self._number)
        output.mkdir()
        for name in ("out", "err"):
            (output / name).touch()
        request = {
            "command": [*map(str, command)],
            "call": call,
            "folder": str(folder),
            "output": str(output),
            "environment": {"IPL_CACHE": str(cache)},
            "faults": faults,
        }
        return Command(self, self.ask({"start": request})["process"], output)

    def run(self, *command: object, folder: Path, cache: Path, **faults: Any) -> Ended:
        """Returns how `ipl COMMAND...` ended."""
        return self.start(*command, folder=folder, cache=cache, **faults).wait()

    def close(self) -> None:
        """Ends the server."""
        self._process.communicate(timeout=SECONDS)


# -- the server -----------------------------------------------------------------------------------


class ForkedWorker:
    """Stands for `subprocess.Popen` of a worker of `ipl bench --jobs`, without its imports."""

    def __init__(self, _: Any, *, stderr: Any, env: dict[str, str], **options: Any) -> None:
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            for number, file in enumerate((theirs_in, theirs_out, stderr.fileno())):
                os.dup2(file, number)
            os.closerange(3, 4096)
            os.environ.update(env)
            _call("ipl.bench.engines.worker_main:main", [])
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin, self.stdout = os.fdopen(ours_in, "w"), os.fdopen(ours_out)
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def kill(self) -> None:
        """Kills it."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Returns its exit code."""
        with self._lock:
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self.returncode


def _import_once() -> None:
    import torch

    import ipl.apps.serve.app
    import ipl.backbone.loading as loading
    import ipl.bench.engines.worker_process as worker_process
    import ipl.bench.runner as runner
    import ipl.classifier as classifier
    import ipl.cli.main  # noqa: F401
    import ipl.training.checkpoint as checkpoint

    torch.set_num_threads(1)
    load = cache(loading.load_backbone)
    for module in (loading, classifier, runner):
        module.load_backbone = load  # type: ignore[attr-defined]
    for arguments in (("pocket", "cpu"), ("pocket", "cpu", "fp32")):
        load(*arguments)
    checkpoint.SECONDS_BETWEEN_WRITES = 0.0  # a state after every epoch: more to be killed in
    worker_process.subprocess = type("", (), {**vars(subprocess), "Popen": ForkedWorker})  # type: ignore[assignment]


def _call(function: str, arguments: list[str]) -> None:
    """Ends this process as a Python that called only this function would."""
    import importlib
    import traceback

    import torch

    # After a fork torch makes its pool of threads anew, at the first use of any thread: two threads
    # that come first at the same time would find none.
    torch.set_num_threads(1)
    code: Any = 1
    try:
        sys.argv = ["ipl", *arguments]
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a worker replaces them once more
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)()
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 1
        os._exit(code if isinstance(code, int) else 1)


def _start(request: dict[str, Any]) -> int:
    process = os.fork()
    if process:
        return process
    flags = os.O_WRONLY | os.O_APPEND
    files = [os.open(Path(request["output"]) / name, flags) for name in ("out", "err")]
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, number)
    os.closerange(3, 4096)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    for name, values in request["faults"].items():
        FAULTS[name](*(values if isinstance(values, list) else [values]))
    _call(request["call"], request["command"])
    raise AssertionError("unreachable")


def _wait(process: int, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            return {"code": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss * 1024}
        if time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
            return {"code": HANGS, "peak": os.wait4(process, 0)[2].ru_maxrss * 1024}
        time.sleep(0.002)


def main() -> None:
    """Serves until the input ends."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _import_once()
    running = set[int]()
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            answer: dict[str, Any] = {"process": _start(request["start"])}
            running.add(answer["process"])
        else:
            answer = _wait(request["wait"], request["seconds"])
            running.remove(request["wait"])
        print(json.dumps(answer), file=answers, flush=True)
    for process in running:  # of tests that failed
        os.kill(process, signal.SIGKILL)
    os._exit(0)  # at once: there is nothing to clean up


if __name__ == "__main__":
    main()
