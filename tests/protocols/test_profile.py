"""The numbers of a profile, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ipl.protocols.profile import Watch, resident_peak, summary


def test_the_summary_is_that_of_numpy() -> None:
    percents = [float(value) for value in np.random.default_rng(0).uniform(0, 100, 37)]
    found = summary(percents)
    assert found is not None
    assert found["mean"] == pytest.approx(np.mean(percents))
    assert found["p95"] == pytest.approx(np.percentile(percents, 95))
    assert found["above_50"] == pytest.approx(np.mean(np.array(percents) > 50))
    assert summary([7.0]) == {"mean": 7.0, "p95": 7.0, "above_50": 0.0}
    assert summary([]) is None


def test_peak_memory_is_that_of_the_block() -> None:
    with Watch(torch.device("cpu")) as watch:
        block = np.ones(64 << 20, dtype=np.uint8)
    before = watch.peak_memory
    assert before >= block.nbytes
    assert resident_peak() >= before
    assert watch.profile is None
