"""The numbers of a profile."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from ipl.bench.profile import UsageMonitor, resident_peak, summary


def test_the_summary_by_hand() -> None:
    assert summary([10.0, 50.0, 60.0, 80.0]) == pytest.approx(
        {"mean": 50.0, "p95": 77.0, "above_50": 0.5}
    )
    assert summary([]) is None


def test_without_a_gpu_the_utilisation_is_not_measured() -> None:
    with UsageMonitor(torch.device("cpu"), profile=True) as usage:
        time.sleep(0.2)
    assert usage.profile is None
    assert "ipl[scale]" in usage.notes[0]


def test_peak_memory_is_that_of_the_block() -> None:
    with UsageMonitor(torch.device("cpu")) as usage:
        block = np.ones(64 << 20, dtype=np.uint8)
    before = usage.peak_memory
    assert before >= block.nbytes
    assert resident_peak() >= before
    assert usage.profile is None
