"""Krippendorff's alpha against its published worked example, and where it is not defined."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ipl.explain.ratings.agreement import krippendorff_alpha
from ipl.support.errors import ConfigError

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): four observers, twelve units.
GAP = float("nan")
EXAMPLE = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, GAP, GAP, GAP],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, GAP, 3],
        [GAP, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, GAP],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, GAP],
    ]
)


@pytest.mark.parametrize(
    ("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_published_example(level: str, value: float) -> None:
    found = krippendorff_alpha(EXAMPLE, level)
    assert found.value == pytest.approx(value, abs=5e-4)
    assert found.why is None
    shuffled = EXAMPLE[::-1, np.random.default_rng(0).permutation(12)]
    assert krippendorff_alpha(shuffled, level).value == pytest.approx(found.value, abs=1e-12)


def test_interval_alpha_is_the_plain_loop_over_pairs() -> None:
    table = np.random.default_rng(1).integers(1, 6, (3, 20)).astype(float)
    table[0, 3] = table[1, 5] = table[2, 5] = GAP
    units = [[v for v in unit if v == v] for unit in table.T]
    units = [unit for unit in units if len(unit) > 1]
    every = [v for unit in units for v in unit]
    inside = sum(
        2 * sum((a - b) ** 2 for a, b in combinations(unit, 2)) / (len(unit) - 1) for unit in units
    )
    across = 2 * sum((a - b) ** 2 for a, b in combinations(every, 2)) / (len(every) - 1)
    found = krippendorff_alpha(table, "interval").value
    assert found == pytest.approx(1 - inside / across, abs=1e-12)


def test_its_ends() -> None:
    agreed = np.array([[1, 2, 5, 4], [1, 2, 5, 4], [1, GAP, 5, 4]], dtype=float)
    assert krippendorff_alpha(agreed).value == pytest.approx(1.0)
    opposed = np.array([[1, 5], [5, 1]], dtype=float)
    value = krippendorff_alpha(opposed).value
    assert value is not None
    assert value < 0


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (np.zeros((0, 3)), "fewer than two people"),
        (np.array([[1.0, 2, 3]]), "fewer than two people"),
        (np.array([[1.0, 2, 3], [GAP, GAP, GAP]]), "fewer than two people"),
        (np.array([[1.0, GAP], [GAP, 2]]), "no word has been rated by two"),
        (np.full((3, 4), 3.0), "all ratings are the same"),
    ],
)
def test_where_it_cannot_be_told(table: np.ndarray, why: str) -> None:
    found = krippendorff_alpha(table)
    assert found.value is None
    assert why in (found.why or "")


def test_a_level_that_is_none() -> None:
    with pytest.raises(ConfigError, match="level is 'ratio'; allowed are nominal"):
        krippendorff_alpha(EXAMPLE, "ratio")
