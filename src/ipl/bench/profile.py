"""What a fit costs: peak memory always, and the utilisation of the device on request."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
import torch

from ipl.support.machine import cores

INTERVAL = 0.1  # seconds between two samples
BUSY = 50.0  # percent; the share of samples above it is reported

Measure = Callable[[], float]  # returns utilisation in percent


class UsageMonitor:
    """Measures what its block costs; with `profile` it samples the utilisation of the device."""

    def __init__(self, device: torch.device, profile: bool = False) -> None:
        self.device = device
        self.peak_memory = 0  # bytes: of the GPU where there is one, else resident
        self.profile: dict[str, Any] | None = None
        self.notes: list[str] = []
        self._sampler = _Sampler(*_measure(device)) if profile else None
        if self._sampler and device.type == "cuda" and self._sampler.source != "nvml":
            self.notes.append(
                "The utilisation of the GPU cannot be measured without NVML; the profile is that "
                "of the process: pip install 'ipl[scale]'."
            )

    def __enter__(self) -> UsageMonitor:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak starts anew from here
        if self._sampler is not None:
            self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sampler is not None:
            self.profile = self._sampler.stop()
        if self.device.type == "cuda":
            self.peak_memory = torch.cuda.max_memory_allocated(self.device)
        else:
            self.peak_memory = resident_peak()


class _Sampler(threading.Thread):
    """Samples the device every tenth of a second, in the background."""

    def __init__(self, source: str, measure: Measure) -> None:
        super().__init__(daemon=True)
        self.source, self.measure = source, measure
        self.samples: list[float] = []
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(INTERVAL):
            with suppress(Exception):  # a sample that fails must not take the run with it
                self.samples.append(self.measure())

    def stop(self) -> dict[str, Any]:
        """Returns the summary of all samples."""
        self._done.set()
        self.join()
        return {"source": self.source, "utilisation": summary(self.samples)}


def summary(percents: list[float]) -> dict[str, float] | None:
    """Returns the mean, the 95th percentile and the share of samples above 50 %."""
    if not percents:
        return None
    values = np.array(percents)
    return {
        "mean": float(values.mean()),
        "p95": float(np.percentile(values, 95)),
        "above_50": float((values > BUSY).mean()),
    }


def resident_peak() -> int:
    """Returns the most bytes in memory; on Linux, since the last UsageMonitor began."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _measure(device: torch.device) -> tuple[str, Measure]:
    """Returns where the numbers come from, and the function that takes a sample."""
    if device.type == "cuda":
        with suppress(Exception):  # no package, no library or no permission: the process, then
            return "nvml", _nvml(device)
    return "process", _process()


def _nvml(device: torch.device) -> Measure:
    import pynvml

    pynvml.nvmlInit()
    # By its own name: CUDA_VISIBLE_DEVICES renumbers devices for torch, not for NVML.
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")

    return lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _process() -> Measure:
    """Returns a function that samples this process: its share of the cores."""
    number = cores()
    before = (time.perf_counter(), time.process_time())

    def measure() -> float:
        nonlocal before
        now = (time.perf_counter(), time.process_time())
        busy = 100 * (now[1] - before[1]) / ((now[0] - before[0]) * number)
        before = now
        return busy

    return measure
