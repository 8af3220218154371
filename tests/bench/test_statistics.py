"""Effects with their intervals and tests, against plain loops and cases worked out by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import permutation_test

from ipl.bench.statistics import Effect, holm, measure_effect


def by_loop(differences: list[float]) -> float:
    """Returns the share of sign flips whose sum is at least as far from 0."""
    seen = abs(sum(differences))
    flips = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    return sum(flip >= seen - 1e-9 for flip in flips) / len(flips)


# -- the test -------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [6, 11, 16, 40])
def test_p_is_that_of_scipy(units: int) -> None:
    values = np.random.default_rng(units).normal(0.3, 1, units)
    flips = {"permutation_type": "samples", "n_resamples": 2**16, "rng": 0}
    expected = permutation_test((values,), np.mean, **flips).pvalue
    found = measure_effect([[value] for value in values]).p
    assert found == pytest.approx(expected, abs=0.01 if units > 16 else 1e-12)
    assert found == measure_effect([[value] for value in values]).p  # flips that are drawn, too


def test_the_signs_of_unit_means_are_flipped() -> None:
    values = [list(np.random.default_rng(s).normal(0.7, 1, s)) for s in range(1, 7)]
    means = [float(np.mean(unit)) for unit in values]
    effect = measure_effect(values)
    assert effect.p == pytest.approx(by_loop(means))
    assert effect.difference == pytest.approx(np.mean(means))
    assert (effect.units, effect.pairs, effect.reason) == (6, 21, "")


def test_more_seeds_of_the_same_units_are_not_more_evidence() -> None:
    one = measure_effect([[0.5], [0.4], [0.3], [0.6], [0.5], [0.2]])
    nine = measure_effect([[0.5] * 9, [0.4] * 9, [0.3] * 9, [0.6] * 9, [0.5] * 9, [0.2] * 9])
    assert one.p == nine.p == pytest.approx(2 / 2**6)
    assert (one.pairs, nine.pairs) == (6, 54)
    assert (one.low, one.high) == pytest.approx((nine.low, nine.high), abs=0.02)


def test_a_unit_with_many_seeds_weighs_as_much_as_any_other() -> None:
    assert measure_effect([[1.0] * 99, [0.0]]).difference == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2 / 64),  # all of one sign: only the two extremes
        ([-2.0, -1.0, -3.0, -0.5, -1.0, -4.0], 2 / 64),
        ([0.0] * 6, 1.0),  # nothing changed
        ([1.0, -1.0] * 3, 1.0),
        ([0.1, 0.1, 0.1, -0.3, 0.2, 0.0], by_loop([0.1, 0.1, 0.1, -0.3, 0.2, 0.0])),  # ties
    ],
)
def test_by_hand(values: list[float], p: float) -> None:
    assert measure_effect([[value] for value in values]).p == pytest.approx(p)
    assert measure_effect([[-value] for value in values]).p == pytest.approx(p)


def test_few_units_have_an_interval_alone_and_one_pair_not_even_that() -> None:
    effect = measure_effect([[1.0, 2.0]] * 5, "prompts")
    assert effect.p is None
    assert effect.reason == "no test: 5 prompts, at least 6 are needed"
    assert effect.low is not None
    assert effect.high is not None
    assert 1.0 <= effect.low < effect.difference < effect.high <= 2.0
    reason = "no interval: one pair of runs; no test: 1 dataset, at least 6 are needed"
    assert measure_effect([[0.25]]) == Effect(0.25, None, None, None, 1, 1, reason)


# -- the interval ---------------------------------------------------------------------------------


def interval_of(values: list[list[float]]) -> tuple[float, float]:
    effect = measure_effect(values)
    assert effect.low is not None
    assert effect.high is not None
    return effect.low, effect.high


def test_one_unit_resamples_its_seeds() -> None:
    # The mean of two draws from (0, 1) is 0, 0.5 or 1 with probability 1/4, 1/2, 1/4.
    assert interval_of([[0.0, 1.0]]) == (0.0, 1.0)
    values = list(np.random.default_rng(1).normal(0, 1, 40))
    interval = interval_of([values])
    error = 1.96 * np.std(values) / np.sqrt(40)
    expected = (np.mean(values) - error, np.mean(values) + error)
    assert interval == pytest.approx(expected, abs=0.05)


def test_units_and_seeds_of_different_numbers_against_a_plain_loop() -> None:
    generator = np.random.default_rng(5)
    values = [generator.normal(shift, 1, seeds) for shift, seeds in ((0, 2), (1, 5), (3, 1))]
    means = []
    for _ in range(20_000):
        units = [values[index] for index in generator.integers(0, 3, 3)]
        means.append(np.mean([generator.choice(unit, len(unit)).mean() for unit in units]))
    expected = np.percentile(means, [2.5, 97.5])
    assert interval_of([list(unit) for unit in values]) == pytest.approx(expected, abs=0.05)


def test_intervals_cover_the_true_mean_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        units = generator.normal(1.0, 1.0, (20, 1))
        interval = interval_of((units + generator.normal(0, 0.5, (20, 3))).tolist())
        covered += interval[0] <= 1.0 <= interval[1]
    assert 0.90 <= covered / 100 <= 0.99


# -- the correction -------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1; the last may not be below the third.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7, 1.0]) == [1.0, 1.0, 1.0]
    # What was not tested does not count.
    assert holm([None, 0.02, None, 0.04]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, float("nan")])
    for values in ([], [[1.0], []], [[1.0], [float("nan")]]):
        with pytest.raises(ValueError, match="finite"):
            measure_effect(values)
