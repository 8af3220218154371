"""The sign-flip test, against a plain loop over all flips."""

from __future__ import annotations

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from ipl.bench.statistics import DRAWN, EXACT, paired_test


def by_loop(differences: list[float]) -> float:
    """Returns the share of sign flips whose sum is at least as far from 0."""
    seen = abs(sum(differences))
    flips = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    return sum(flip >= seen - 1e-9 for flip in flips) / len(flips)


@pytest.mark.parametrize("count", range(1, 12))
def test_every_flip_counts(count: int) -> None:
    generator = np.random.default_rng(count)
    for shift in (0.0, 0.7):
        values = list(generator.normal(shift, 1, count))
        test = paired_test(values)
        assert test.p == pytest.approx(by_loop(values))
        assert test.difference == pytest.approx(np.mean(values))
        assert (test.pairs, test.test) == (count, EXACT)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([1.0, 1.0, 1.0], 2 / 8),  # all of one sign: only the two extremes
        ([-2.0, -1.0, -3.0, -0.5, -1.0], 2 / 32),
        ([0.0, 0.0], 1.0),  # nothing changed
        ([1.0, -1.0], 1.0),
        ([0.1, 0.1, 0.1, -0.3, 0.2, 0.0], by_loop([0.1, 0.1, 0.1, -0.3, 0.2, 0.0])),  # ties
    ],
)
def test_by_hand(values: list[float], p: float) -> None:
    assert paired_test(values).p == pytest.approx(p)


def test_the_sign_of_all_does_not_matter() -> None:
    values = [0.3, -0.1, 0.8, 0.4, 0.2]
    assert paired_test(values).p == paired_test([-v for v in values]).p


def test_thirty_three_pairs_are_exact() -> None:
    test = paired_test([0.5] * 33)  # eleven sets, three seeds
    assert test.test == EXACT
    assert test.p == pytest.approx(2 / 2**33, rel=1e-9)


def test_above_forty_flips_are_drawn_and_always_the_same() -> None:
    values = list(np.random.default_rng(0).normal(0.1, 1, 60))
    first, second = paired_test(values), paired_test(values)
    assert first == second
    assert first.test == DRAWN
    # The sum of many signs is near normal.
    z = abs(sum(values)) / np.sqrt(np.square(values).sum())
    assert first.p == pytest.approx(2 * NormalDist().cdf(-z), rel=0.05)


@pytest.mark.parametrize("values", [[], [float("nan")], [1.0, float("inf")]])
def test_no_numbers(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        paired_test(values)
