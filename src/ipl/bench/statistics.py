"""Whether a difference is more than chance: intervals, sign-flip tests and their correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

MOST_EXACT = 16  # units, whose 65,536 sign flips are all computed
DRAWS = 100_000  # flips of more units
FEWEST_UNITS = 6  # with five, no p is below 2 / 2**5 = 0.0625
RESAMPLES = 10_000


@dataclass(frozen=True)
class Effect:
    """A difference between two arms, averaged over units, with its interval and test."""

    difference: float  # the mean over units of each unit's mean over its seeds
    low: float | None  # 95 % interval, None for a single pair
    high: float | None
    p: float | None  # None if there are too few units for a test
    units: int
    pairs: int  # of all units
    reason: str = ""  # why there is no test


def measure_effect(differences: Sequence[Sequence[float]], unit: str = "datasets") -> Effect:
    """Average paired differences over units, with an interval and a test over units.

    Seeds of one unit are not independent evidence about other units. The differences are
    therefore averaged within each unit first, and the test flips the signs of these means.

    Parameters
    ----------
    differences : sequence of sequences of float
        For each unit, one difference per pair of runs (usually per seed).
    unit : str, default="datasets"
        What a unit is, in the plural, for the reason.

    Returns
    -------
    Effect
        The mean difference; its 95 % bootstrap interval over units, then seeds; and p of the
        two-sided sign-flip test: exact up to 16 units, 100,000 drawn flips above. With fewer
        than six units p is None, for a single pair the interval as well; `reason` says so.

    Raises
    ------
    ValueError
        If there is no unit, if a unit is empty, or if a difference is not finite.
    """
    values = _check(differences)
    means = np.array([unit_values.mean() for unit_values in values])
    low, high = _bootstrap(values) or (None, None)
    p, reason = None, ""
    if len(means) >= FEWEST_UNITS:
        p = _flip_signs(means)
    else:
        name = unit.removesuffix("s") if len(means) == 1 else unit
        reason = f"no test: {len(means)} {name}, at least {FEWEST_UNITS} are needed"
        if low is None:
            reason = f"no interval: one pair of runs; {reason}"
    pairs = sum(len(unit_values) for unit_values in values)
    return Effect(float(means.mean()), low, high, p, len(means), pairs, reason)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Adjust the p of a family of tests by Holm's step-down method.

    Parameters
    ----------
    ps : sequence of float or None
        The p of each test; None where there was no test, which does not count.

    Returns
    -------
    list of float or None
        The adjusted p in the same order, at most 1.

    Raises
    ------
    ValueError
        If a p is not between 0 and 1.
    """
    tests = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    if not all(0 <= p <= 1 for p, _ in tests):
        raise ValueError("p must be between 0 and 1.")
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, index) in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _check(values: Sequence[Sequence[float]]) -> list[np.ndarray]:
    """Returns the values of each unit as an array; raises ValueError if they cannot be used."""
    arrays = [np.asarray(unit_values, dtype=np.float64) for unit_values in values]
    if not arrays or not all(len(array) and np.isfinite(array).all() for array in arrays):
        raise ValueError("Values must be finite numbers, at least one for each unit.")
    return arrays


def _bootstrap(values: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Returns the 95 % interval of the mean of unit means, or None for a single value."""
    counts = np.array([len(unit_values) for unit_values in values])
    if counts.sum() == 1:
        return None
    starts = np.cumsum(counts) - counts
    flat = np.concatenate(values)
    generator = np.random.default_rng(0)
    units = generator.integers(len(values), size=(RESAMPLES, len(values)))
    first, size, sums = starts[units], counts[units], np.zeros(units.shape)
    for position in range(counts.max()):  # one array over all seeds would need more memory
        drawn = flat[first + generator.integers(size)]
        sums += np.where(position < size, drawn, 0)
    low, high = np.percentile((sums / size).mean(1), [2.5, 97.5])
    return float(low), float(high)


def _flip_signs(means: np.ndarray) -> float:
    """Returns the share of sign flips whose sum is at least as far from 0 as that of `means`."""
    if len(means) <= MOST_EXACT:
        signs = np.array(list(product((-1, 1), repeat=len(means))))
    else:
        signs = np.random.default_rng(0).choice((-1, 1), (DRAWS, len(means)))
        signs[0] = 1  # the observed signs are one of the flips
    # Sums that are equal on paper differ in their last digits.
    limit = abs(means.sum()) - 1e-9 * np.abs(means).sum()
    return float((np.abs(signs @ means) >= limit).mean())
