"""Krippendorff's alpha: whether people who rate the same things agree beyond chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipl.support.errors import ConfigError

LEVELS = ("nominal", "ordinal", "interval")


@dataclass(frozen=True)
class Alpha:
    """1 is perfect agreement, 0 what chance would give; None if undefined, with the reason."""

    value: float | None
    why: str | None = None


def krippendorff_alpha(ratings: NDArray[np.float64], level: str = "ordinal") -> Alpha:
    """Returns the alpha of ratings (raters, units), where NaN is a rating that is missing.

    alpha = 1 - observed / expected disagreement. Observed: over the pairs of ratings of one unit;
    expected: over the pairs of all ratings, whichever unit they are of. A unit that fewer than
    two people rated makes no pair and is left out.
    """
    if level not in LEVELS:
        raise ConfigError(f"level is {level!r}; allowed are {', '.join(LEVELS)}.")
    table = np.asarray(ratings, dtype=np.float64)
    given = ~np.isnan(table)
    if int(given.any(axis=1).sum()) < 2:
        return Alpha(None, "fewer than two people have rated")
    paired = table[:, given.sum(axis=0) >= 2]
    if paired.shape[1] == 0:
        return Alpha(None, "no word has been rated by two people")
    values = np.unique(paired[~np.isnan(paired)])
    if len(values) == 1:
        return Alpha(None, "all ratings are the same, so there is nothing to agree about")
    coincidences = _coincidences(paired, values)
    totals = coincidences.sum(axis=1)  # how often each value occurs
    count = totals.sum()
    distance = _distances(values, totals, level)
    observed = float((coincidences * distance).sum()) / count
    expected = float((np.outer(totals, totals) * distance).sum()) / (count * (count - 1))
    return Alpha(1 - observed / expected)


def _coincidences(paired: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns how often two values (values, values) occur in one unit.

    Each pair is counted both ways, and a unit of m ratings has m (m - 1) of them: divided by m - 1.
    """
    coincidences = np.zeros((len(values), len(values)))
    for unit in paired.T:
        counts = np.array([(unit == value).sum() for value in values], dtype=np.float64)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (counts.sum() - 1)
    return coincidences


def _distances(
    values: NDArray[np.float64], totals: NDArray[np.float64], level: str
) -> NDArray[np.float64]:
    """Returns the squared distance (values, values) of two values."""
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    if level == "interval":
        return np.asarray(np.subtract.outer(values, values) ** 2)
    # Ordinal: how many ratings lie between two values, each of the two counted half.
    middle = np.cumsum(totals) - totals / 2
    return np.asarray(np.subtract.outer(middle, middle) ** 2)
