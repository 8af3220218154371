"""One worker process, seen from the one that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from ipl.bench.grid import ReportProgress
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from ipl.support.child_process import child_environment
from ipl.support.errors import IplError
from ipl.support.machine import cores

COMMAND = "from ipl.bench.engines.worker_main import main; main()"


class DiedError(Exception):
    """A worker process that ended without an answer."""


class WorkerProcess:
    """A process with its share of the cores, on one GPU if there are any."""

    def __init__(self, environment: RunEnvironment, jobs: int, gpu: str | None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - stop() closes it
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(jobs, gpu),
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the parent process
        )
        self._ready = False
        self._send(replace(environment, jobs=jobs).as_dict())

    def record(self, run: Run, report: ReportProgress) -> dict[str, Any]:
        """Returns the record of a run.

        Raises
        ------
        DiedError
            If the process ended instead.
        IplError
            If every other run would fail in the same way.
        """
        self._send(run.as_dict())
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._ready = True
            if "refused" in answer:
                raise IplError(answer["refused"])
            if "note" in answer:
                report(run, answer["note"])
            if "record" in answer:
                record: dict[str, Any] = answer["record"]
                return record
        reason = self._reason()
        if not self._ready and (self._process.returncode or 0) > 0:  # as would every other
            raise IplError(f"No worker can be started here. {reason}")
        raise DiedError(reason)

    def stop(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):  # what was still to be sent
                if stream is not None:
                    stream.close()

    def _send(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # it has ended already; reading its answer says so
            pass

    def _reason(self) -> str:
        """Returns how the process ended, and the last line it left."""
        code = self._process.wait()
        how = f"with exit code {code}"
        if code < 0:
            name = signal.Signals(-code).name
            hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
            how = f"by the signal {name}{hint}"
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        last_line = f": {lines[-1].strip()}" if lines else "."
        return f"The worker process died {how}{last_line}"


def visible_gpus(device: str) -> list[str]:
    """Returns the GPUs to spread workers over; none if a device was named, or there are none."""
    if device not in ("auto", "cuda"):
        return []

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return [gpu.strip() for gpu in named.split(",") if gpu.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]


def _environment(jobs: int, gpu: str | None) -> dict[str, str]:
    extra = {"OMP_NUM_THREADS": str(max(1, cores() // jobs)), "OMP_WAIT_POLICY": "PASSIVE"}
    if gpu is not None:
        extra["CUDA_VISIBLE_DEVICES"] = gpu
    return child_environment(**extra)
