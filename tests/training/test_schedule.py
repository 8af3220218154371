"""The learning rate of each epoch."""

from __future__ import annotations

import itertools
import math

import pytest

from ipl.training.schedule import images_per_epoch, learning_rate


def test_the_learning_rate_rule() -> None:
    rates = [learning_rate(epoch, 0.002, 100) for epoch in range(100)]
    assert rates[0] == 1e-5
    assert rates[1] == 0.002
    assert rates[51] == pytest.approx(0.001)
    assert rates[99] == pytest.approx(0.002 * (1 + math.cos(math.pi * 98 / 100)) / 2)
    assert all(a > b for a, b in itertools.pairwise(rates[1:]))


@pytest.mark.parametrize(
    ("images", "batch", "trained"),
    [(40, 32, 32), (64, 32, 64), (95, 32, 64), (5, 32, 5), (32, 32, 32), (3, 1, 3)],
)
def test_an_incomplete_batch_is_dropped_unless_it_is_alone(
    images: int, batch: int, trained: int
) -> None:
    assert images_per_epoch(images, batch) == trained
