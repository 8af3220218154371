"""What a fit costs: peak memory always, and the utilisation of an NVIDIA GPU on request."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

INTERVAL = 0.1  # seconds between two samples
NO_NVML = "The utilisation is not measured; that needs an NVIDIA GPU and pip install 'ipl[scale]'."


@contextmanager
def measure(what: str, device: torch.device, profile: bool = False) -> Iterator[dict[str, Any]]:
    """Yields what a record says about the cost of its block, once the block has ended.

    The time is that of `what`, `fit` or `test`. With `profile` the utilisation of the GPU is
    sampled.
    """
    cost: dict[str, Any] = {"profile": None, "notes": []}
    samples, done = list[float](), threading.Event()
    utilisation = _utilisation_of(device) if profile else None

    def sample() -> None:
        while utilisation is not None and not done.wait(INTERVAL):
            with suppress(Exception):  # a sample that fails must not end the others
                samples.append(utilisation())

    sampler = threading.Thread(target=sample, daemon=True)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts anew from here
    started = time.perf_counter()
    sampler.start()
    try:
        yield cost
    finally:
        seconds = time.perf_counter() - started
        done.set()
        sampler.join()
    cost["seconds"] = {what: seconds}
    if device.type == "cuda":
        cost["peak_memory"] = torch.cuda.max_memory_allocated(device)
    else:
        cost["peak_memory"] = resident_peak()
    if utilisation is not None:
        mean = {"mean": statistics.mean(samples)} if samples else None
        cost["profile"] = {"source": "nvml", "utilisation": mean}
    elif profile:
        cost["notes"] = [NO_NVML]


def _utilisation_of(device: torch.device) -> Callable[[], float] | None:
    """What says how busy a GPU is now, in per cent; None without GPU, package or permission."""
    try:
        import pynvml

        pynvml.nvmlInit()
        # By its own name: CUDA_VISIBLE_DEVICES renumbers devices for torch, not for NVML.
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
    except Exception:  # of many kinds
        return None
    return lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def resident_peak() -> int:
    """The most bytes in memory; on Linux, since `measure` last began."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
