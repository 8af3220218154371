"""Whether a difference is more than chance: sign-flip tests, their intervals and correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import stdtrit

MOST_EXACT = 16  # units, whose 65,536 sign flips are all computed
DRAWS = 100_000  # flips of more units
FEWEST_UNITS = 6  # with five, no p is below 2 / 2**5 = 0.0625
LEVEL = 0.05
CLOSE = 1.0  # points; a difference whose whole interval is smaller counts as none

# What an interval is from.
SIGN_FLIP, STUDENT, STUDENT_SEEDS = ("sign-flip", "Student", "Student, over seeds")


@dataclass(frozen=True)
class Effect:
    """A difference between two arms, averaged over units, with its interval and test."""

    difference: float  # the mean over units of each unit's mean over its seeds
    low: float | None  # 95 % interval, None for a single pair
    high: float | None
    p: float | None  # None if there are too few units for a test
    units: int
    pairs: int  # of all units
    interval: str = ""  # what the interval is from: SIGN_FLIP, STUDENT or STUDENT_SEEDS
    reason: str = ""  # why there is no test

    @property
    def is_clear(self) -> bool:
        """Whether there is an interval and 0 is outside it."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def is_close(self) -> bool:
        """Whether the interval lets the difference be no larger than 1 point."""
        return (
            self.low is not None
            and self.high is not None
            and -CLOSE < self.low <= self.high < CLOSE
        )


def measure_effect(differences: Sequence[Sequence[float]], unit: str = "datasets") -> Effect:
    """The mean over units of paired differences, with an interval and a test over units.

    `differences` has for each unit one number per pair of runs, usually per seed. Seeds of one
    unit say nothing about other units, so they are averaged within each unit first. p is that of
    the two-sided sign-flip test of these means (exact up to 16 units, 100,000 drawn flips above);
    the interval has all shifts that this test does not reject at 5 %. With two to five units there
    is no test, and the interval is Student's; with one, Student's over its seeds; with a single
    pair there is none.
    """
    values = [np.asarray(unit_values, dtype=np.float64) for unit_values in differences]
    means = np.array([unit_values.mean() for unit_values in values])
    units, pairs = len(means), sum(map(len, values))
    if units >= FEWEST_UNITS:
        low, high, p = _invert_sign_flips(means)
        return Effect(float(means.mean()), low, high, p, units, pairs, SIGN_FLIP)
    name = unit.removesuffix("s") if units == 1 else unit
    reason = f"with {units} {name}, p cannot be below {2 / 2**units:.2g}; {FEWEST_UNITS} are needed"
    if pairs == 1:
        return Effect(float(means[0]), None, None, None, 1, 1, "", reason)
    low, high = _student(means if units > 1 else values[0])
    origin = STUDENT if units > 1 else STUDENT_SEEDS
    return Effect(float(means.mean()), low, high, None, units, pairs, origin, reason)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """The p of a family of tests by Holm's step-down method; None is no test and stays."""
    tests = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, index) in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - rank) * p))
        adjusted[index] = largest
    return adjusted


def _invert_sign_flips(means: np.ndarray) -> tuple[float, float, float]:
    """The shifts that the sign-flip test of `means` does not reject, and its p for no shift.

    Flipping the signs of some units gives a sum at least as far from 0 exactly if 0 lies between
    the mean of those units and the mean of the others. So each flip has a lower and an upper
    bound with the mean of all between them, and p of a shift is the share of flips whose bounds
    enclose it.
    """
    count = len(means)
    if count <= MOST_EXACT:
        flipped = np.array(list(product((0.0, 1.0), repeat=count)))
    else:
        flipped = np.random.default_rng(0).integers(2, size=(DRAWS, count)).astype(float)
        flipped[0] = 0  # the observed signs are one of the flips
    sizes, sums = flipped.sum(1), flipped @ means
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.stack([sums / sizes, (means.sum() - sums) / (count - sizes)])
    # Sums that are equal on paper differ in their last digits.
    parts[np.abs(parts) <= 1e-9 * np.abs(means).max()] = 0
    every = (sizes == 0) | (sizes == count)  # these flips enclose every shift
    lows = np.where(every, -np.inf, parts.min(0))
    highs = np.where(every, np.inf, parts.max(0))
    rejected = math.floor(LEVEL * len(flipped))
    p = float(((lows <= 0) & (highs >= 0)).mean())
    return float(np.sort(lows)[rejected]), float(np.sort(highs)[::-1][rejected]), p


def _student(values: np.ndarray) -> tuple[float, float]:
    """Student's 95 % interval of a mean."""
    t = stdtrit(len(values) - 1, 1 - LEVEL / 2)
    half = float(t * values.std(ddof=1) / math.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half
