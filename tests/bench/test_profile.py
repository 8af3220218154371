"""The numbers of a profile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ipl.bench.profile import measure, resident_peak, summary


def test_the_summary_by_hand() -> None:
    assert summary([10.0, 50.0, 60.0, 80.0]) == pytest.approx(
        {"mean": 50.0, "p95": 77.0, "above_50": 0.5}
    )
    assert summary([]) is None


def test_time_and_peak_memory_are_those_of_the_block() -> None:
    with measure("fit", torch.device("cpu"), profile=True) as cost:
        block = np.ones(64 << 20, dtype=np.uint8)
    assert block.nbytes <= cost["peak_memory"] <= resident_peak()
    assert set(cost["seconds"]) == {"fit"}
    assert cost["profile"] is None  # without a GPU
    assert "ipl[scale]" in cost["notes"][0]
