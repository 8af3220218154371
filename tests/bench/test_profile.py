"""The numbers of a profile."""

from __future__ import annotations

import numpy as np
import torch

from ipl.bench.profile import measure, resident_peak


def test_time_and_peak_memory_are_those_of_the_block() -> None:
    with measure("fit", torch.device("cpu"), profile=True) as cost:
        block = np.ones(64 << 20, dtype=np.uint8)
    assert block.nbytes <= cost["peak_memory"] <= resident_peak()
    assert set(cost["seconds"]) == {"fit"}
    assert cost["profile"] is None  # without a GPU
    assert "ipl[scale]" in cost["notes"][0]
