"""What a fit costs: peak memory always, and the utilisation of an NVIDIA GPU on request."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import torch

INTERVAL = 0.1  # seconds between two samples
BUSY = 50.0  # percent; the share of samples above it is reported
NO_NVML = "The utilisation is not measured; that needs an NVIDIA GPU and pip install 'ipl[scale]'."


class UsageMonitor:
    """Measures what its block costs; with `profile` it samples the utilisation of the GPU."""

    def __init__(self, device: torch.device, profile: bool = False) -> None:
        self.device = device
        self.peak_memory = 0  # bytes: of the GPU where there is one, else resident
        self.profile: dict[str, Any] | None = None
        self.notes: list[str] = []
        self._samples: list[float] = []
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True) if profile else None

    def __enter__(self) -> UsageMonitor:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the peak starts anew from here
        if self._sampler is not None:
            self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._done.set()
            self._sampler.join()
            if not self.notes:
                self.profile = {"source": "nvml", "utilisation": summary(self._samples)}
        if self.device.type == "cuda":
            self.peak_memory = torch.cuda.max_memory_allocated(self.device)
        else:
            self.peak_memory = resident_peak()

    def _sample(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            # By its own name: CUDA_VISIBLE_DEVICES renumbers devices for torch, not for NVML.
            uuid = str(torch.cuda.get_device_properties(self.device).uuid)
            handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
        except Exception:  # no GPU, package, library or permission
            self.notes.append(NO_NVML)
            return
        while not self._done.wait(INTERVAL):
            with suppress(Exception):  # a sample that fails must not end the others
                self._samples.append(float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu))


def summary(percents: list[float]) -> dict[str, float] | None:
    """The mean, the 95th percentile and the share of samples above 50 %."""
    if not percents:
        return None
    values = np.array(percents)
    return {
        "mean": float(values.mean()),
        "p95": float(np.percentile(values, 95)),
        "above_50": float((values > BUSY).mean()),
    }


def resident_peak() -> int:
    """The most bytes in memory; on Linux, since the last UsageMonitor began."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
