"""Effects with their intervals and tests, against scipy and cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import permutation_test, t

from ipl.bench.statistics import (
    STUDENT,
    STUDENT_SEEDS,
    Effect,
    holm,
    measure_effect,
)


def by_scipy(values: np.ndarray) -> float:
    """The p of scipy's sign-flip test, all flips being computed."""
    flips = {"permutation_type": "samples", "n_resamples": 2**16}
    return float(permutation_test((values,), np.mean, **flips).pvalue)


def effect_of(values: np.ndarray) -> Effect:
    return measure_effect([[float(value)] for value in values])


def bounds(effect: Effect) -> tuple[float, float]:
    assert effect.low is not None
    assert effect.high is not None
    return effect.low, effect.high


# -- the test and its interval --------------------------------------------------------------------


@pytest.mark.parametrize("units", [6, 7, 11])
@pytest.mark.parametrize("digits", [0, 1, 9])  # few digits make ties
def test_p_is_scipys_and_the_interval_is_what_scipy_does_not_reject(
    units: int, digits: int
) -> None:
    generator = np.random.default_rng(units + digits)
    for _ in range(5):
        values = np.round(generator.normal(0.6, 1, units), digits)
        effect = effect_of(values)
        assert effect.p == pytest.approx(by_scipy(values), abs=1e-12)
        low, high = bounds(effect)
        assert low <= effect.difference <= high
        for inside, outside in ((low + 1e-6, low - 1e-6), (high - 1e-6, high + 1e-6)):
            assert by_scipy(values - outside) <= 0.05
            assert low == high or by_scipy(values - inside) > 0.05


def test_many_units_have_flips_that_are_drawn() -> None:
    values = np.random.default_rng(40).normal(0.3, 1, 40)
    effect = effect_of(values)
    assert effect.p == pytest.approx(by_scipy(values), abs=0.01)
    assert effect == effect_of(values)  # the same flips each time
    half = t.ppf(0.975, 39) * values.std(ddof=1) / np.sqrt(40)
    expected = (values.mean() - half, values.mean() + half)
    assert bounds(effect) == pytest.approx(expected, abs=0.05)


# -- few units ------------------------------------------------------------------------------------


def test_few_units_have_students_interval_and_no_test() -> None:
    values = [[1.0, 3.0], [2.5], [4.0, 4.0], [1.0]]
    effect = measure_effect(values, "prompts")
    means = np.array([2.0, 2.5, 4.0, 1.0])
    expected = t.interval(0.95, 3, means.mean(), means.std(ddof=1) / 2)
    assert bounds(effect) == pytest.approx(expected)
    assert (effect.p, effect.interval) == (None, STUDENT)
    assert "4 prompts" in effect.reason
    one = measure_effect([[1.0, 2.5, 4.0]])
    seeds = np.array([1.0, 2.5, 4.0])
    expected = t.interval(0.95, 2, seeds.mean(), seeds.std(ddof=1) / np.sqrt(3))
    assert bounds(one) == pytest.approx(expected)
    assert (one.p, one.interval) == (None, STUDENT_SEEDS)
    pair = measure_effect([[0.25]])
    assert (pair.difference, pair.low, pair.high, pair.p) == (0.25, None, None, None)


# -- the correction -------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1; the last may not be below the third.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7, 1.0]) == [1.0, 1.0, 1.0]
    # What was not tested does not count.
    assert holm([None, 0.02, None, 0.04]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []
