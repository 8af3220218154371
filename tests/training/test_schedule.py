"""The learning rate of each epoch."""

from __future__ import annotations

import itertools
import math

import pytest

from ipl.training.schedule import learning_rate


def test_the_learning_rate_rule() -> None:
    rates = [learning_rate(epoch, 0.002, 100) for epoch in range(100)]
    assert rates[0] == 1e-5
    assert rates[1] == 0.002
    assert rates[51] == pytest.approx(0.001)
    assert rates[99] == pytest.approx(0.002 * (1 + math.cos(math.pi * 98 / 100)) / 2)
    assert all(a > b for a, b in itertools.pairwise(rates[1:]))
