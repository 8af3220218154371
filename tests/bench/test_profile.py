"""The numbers of a profile."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from ipl.bench import profile
from ipl.bench.profile import measure, resident_peak


def test_time_and_peak_memory_are_those_of_the_block() -> None:
    with measure("fit", torch.device("cpu"), profile=True) as cost:
        block = np.ones(64 << 20, dtype=np.uint8)
    assert block.nbytes <= cost["peak_memory"] <= resident_peak()
    assert set(cost["seconds"]) == {"fit"}
    assert cost["profile"] is None  # without a GPU
    assert "ipl[scale]" in cost["notes"][0]


def test_a_profile_is_the_mean_of_what_was_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = iter([40.0, 60.0])
    monkeypatch.setattr(profile, "_utilisation_of", lambda device: lambda: next(samples))
    monkeypatch.setattr(profile, "INTERVAL", 0.001)
    with measure("fit", torch.device("cpu"), profile=True) as cost:
        time.sleep(0.1)
    assert cost["profile"] == {"source": "nvml", "utilisation": {"mean": 50.0}}
