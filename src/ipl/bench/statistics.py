"""Whether a difference is more than chance: a permutation test of paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXACT = "exact sign-flip permutation test, two-sided"
DRAWN = "sign-flip permutation test with 1,000,000 drawn flips, two-sided"
MOST_EXACT = 40  # two halves of 2**20 sums each
DRAWS = 1_000_000


@dataclass(frozen=True)
class PairedTest:
    """Mean difference of pairs, and the probability of one as large if signs were random."""

    difference: float
    pairs: int
    p: float
    test: str


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Returns the mean of paired differences and its p under flips of every pair's sign.

    Up to 40 pairs all 2**n flips are counted; above that a million are drawn, always the same.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        raise ValueError("differences must be finite numbers, at least one.")
    size = np.abs(values)
    # Sums that are equal on paper differ in their last digits.
    limit = abs(values.sum()) - 1e-9 * max(size.sum(), 1e-300)
    if len(values) > MOST_EXACT:
        generator = np.random.default_rng(0)
        # n fair signs are the bits of a random row; the observed signs are one flip more.
        extreme = 1
        for _ in range(DRAWS // 10_000):
            signs = generator.integers(0, 2, (10_000, len(values))) * 2 - 1
            extreme += int((np.abs(signs @ size) >= limit).sum())
        return PairedTest(float(values.mean()), len(values), extreme / (DRAWS + 1), DRAWN)
    half = len(values) // 2
    left, right = _sums(size[:half]), np.sort(_sums(size[half:]))
    # The sums are symmetric around 0: those at or above the limit count for both sides.
    above = (len(right) - np.searchsorted(right, limit - left)).sum()
    share = float(above) / (len(left) * len(right))
    p = 1.0 if limit <= 0 else min(1.0, 2 * share)
    return PairedTest(float(values.mean()), len(values), p, EXACT)


def _sums(sizes: np.ndarray) -> np.ndarray:
    """Returns the sum of every choice of signs (2**n,)."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums
