"""What a fit costs: peak memory always, and how busy the processor was where that is asked."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import torch

INTERVAL = 0.1  # seconds between two looks
BUSY = 50.0  # percent; the share of time above it is told

Look = Callable[[], tuple[float, int]]  # returns utilisation in percent and bytes in use


class Watch:
    """Measures what happens in its block; `profile` samples how busy the device is."""

    def __init__(self, device: torch.device, profile: bool = False) -> None:
        self.device = device
        self.peak_memory = 0  # bytes: of the GPU where there is one, else resident
        self.profile: dict[str, Any] | None = None
        self.notes: list[str] = []
        self._sampler = _Sampler(*_looks(device)) if profile else None
        if self._sampler and device.type == "cuda" and self._sampler.source != "nvml":
            self.notes.append(
                "How busy the GPU is cannot be seen without NVML; the profile is that of the "
                "process: pip install 'ipl[profile]'."
            )

    def __enter__(self) -> Watch:
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
    """Looks at the device every tenth of a second, in the background."""

    def __init__(self, source: str, look: Look) -> None:
        super().__init__(daemon=True)
        self.source, self.look = source, look
        self.seen: list[tuple[float, int]] = []
        self._done = threading.Event()

    def start(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        super().start()

    def run(self) -> None:
        while not self._done.wait(INTERVAL):
            with suppress(Exception):  # a look that fails must not take the run with it
                self.seen.append(self.look())

    def stop(self) -> dict[str, Any]:
        """Returns the summary of all looks."""
        self._done.set()
        self.join()
        seconds = time.perf_counter() - self._began
        cpu = time.process_time() - self._cpu
        return {
            "source": self.source,
            "interval": INTERVAL,
            "samples": len(self.seen),
            "seconds": seconds,
            "utilisation": summary([busy for busy, _ in self.seen]),
            "peak_memory": max((used for _, used in self.seen), default=None),
            "cpu_seconds": cpu,
            "cpu_cores": cpu / seconds if seconds else None,  # busy on average
            "resident_peak": resident_peak(),
        }


def summary(percents: list[float]) -> dict[str, float] | None:
    """Returns the mean, the 95th percentile and the share of looks above 50 %."""
    if not percents:
        return None
    ranked = sorted(percents)
    place = 0.95 * (len(ranked) - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return {
        "mean": sum(ranked) / len(ranked),
        "p95": ranked[low] + (place - low) * (ranked[high] - ranked[low]),
        "above_50": sum(percent > BUSY for percent in ranked) / len(ranked),
    }


def resident_peak() -> int:
    """Returns the most bytes this process had in memory; on Linux, since the last Watch began."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _looks(device: torch.device) -> tuple[str, Look]:
    """Returns where the numbers come from, and what gets them."""
    if device.type == "cuda":
        with suppress(Exception):  # no package, no library or no permission: the process, then
            return "nvml", _nvml(device)
    return "process", _process()


def _nvml(device: torch.device) -> Look:
    import pynvml

    pynvml.nvmlInit()
    # By its own name: CUDA_VISIBLE_DEVICES renumbers devices for torch, not for NVML.
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")

    def look() -> tuple[float, int]:
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        return float(busy), int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)

    return look


def _process() -> Look:
    """Returns a look at this process: its share of the cores, and what it has in memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    before = (time.perf_counter(), time.process_time())

    def look() -> tuple[float, int]:
        nonlocal before
        now = (time.perf_counter(), time.process_time())
        busy = 100 * (now[1] - before[1]) / ((now[0] - before[0]) * (cores or 1))
        before = now
        return busy, _resident()

    return look


def _resident() -> int:
    with suppress(OSError, ValueError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident_peak()
