"""The numbers of a profile."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ipl.bench.profile import UsageMonitor, resident_peak, summary


def test_the_summary_by_hand() -> None:
    assert summary([10.0, 50.0, 60.0, 80.0]) == pytest.approx(
        {"mean": 50.0, "p95": 77.0, "above_50": 0.5}
    )
    assert summary([]) is None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Returns a device that torch believes in as far as a profile asks."""
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 12345)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="ab-cd")
    )
    return torch.device("cuda")


def test_nvml_is_asked_for_the_device_by_its_own_name(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    percents, asked = iter([20, 60, 100] * 1000), list[str]()
    library = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda name: asked.append(name) or "handle",
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=next(percents)),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr("ipl.bench.profile.INTERVAL", 0.001)
    with UsageMonitor(gpu, profile=True) as usage:
        while next(percents) != 100 or len(usage._sampler.samples) < 9:  # type: ignore[union-attr]
            time.sleep(0.001)
    assert asked == ["GPU-ab-cd"]
    assert usage.peak_memory == 12345
    assert usage.profile is not None
    assert usage.profile["source"] == "nvml"
    assert 20 <= usage.profile["utilisation"]["mean"] <= 100
    assert not usage.notes


def test_without_nvml_the_process_is_watched_and_that_is_said(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with UsageMonitor(gpu, profile=True) as usage:
        time.sleep(0.25)
    assert usage.profile is not None
    assert usage.profile["source"] == "process"
    assert "ipl[scale]" in usage.notes[0]


def test_peak_memory_is_that_of_the_block() -> None:
    with UsageMonitor(torch.device("cpu")) as usage:
        block = np.ones(64 << 20, dtype=np.uint8)
    before = usage.peak_memory
    assert before >= block.nbytes
    assert resident_peak() >= before
    assert usage.profile is None
