"""Submodularity ratios and marginal returns of set functions made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ipl.bench.sentence_gains import Words, beam_search, pair_gains
from ipl.bench.submodularity import (
    MarginalReturns,
    marginal_returns,
    measure_submodularity,
    submodularity_ratios,
)
from tests.helpers.constructed_gains import constructed_gains


def test_ratios_of_known_functions() -> None:
    weights = (0.5, 1.0, 2.0, 4.0)
    modular = submodularity_ratios(lambda words: sum(weights[w] for w in words), (0,), (1, 2, 3))
    assert modular == pytest.approx([1.0] * 4)  # three pairs and a triple
    growing = submodularity_ratios(lambda words: float(len(words) ** 2), (), range(4))
    assert growing == pytest.approx([0.5] * 6 + [1 / 3] * 4)
    later = submodularity_ratios(lambda words: float(len(words) ** 2), (0,), (1, 2), (2,))
    assert later == pytest.approx([6 / 8])
    shrinking = submodularity_ratios(lambda words: len(words) ** 0.5, (), range(4))
    assert min(shrinking) == pytest.approx(2 / 2**0.5)


def test_sets_that_gain_too_little_have_no_ratio_and_the_best_order_counts() -> None:
    worth = {(0,): 1.0, (1,): 1.0, (0, 1): 4.0, (1, 0): 0.5}

    def function(words: Words) -> float:
        return worth.get(words, 0.0)

    assert submodularity_ratios(function, (), (0, 1), (2,)) == [0.5]
    assert submodularity_ratios(function, (), (0, 1), (2,), threshold=4.0) == []
    assert submodularity_ratios(lambda words: -1.0 * len(words), (), (0, 1, 2)) == []


def test_returns_of_known_functions() -> None:
    assert marginal_returns(lambda words: float(len(words)), (), range(3)) == MarginalReturns(
        6, 0, 3, 0
    )
    growing = marginal_returns(lambda words: float(len(words) ** 2), (3,), range(3))
    assert growing == MarginalReturns(6, 6, 3, 0)
    falling = marginal_returns(lambda words: -float(len(words) ** 2), (), range(3))
    assert falling == MarginalReturns(6, 0, 3, 3)
    noisy = marginal_returns(lambda words: 1e-7 * len(words) ** 2, (), range(3), noise=1e-6)
    assert noisy.rising == 0
    assert growing + falling == MarginalReturns(12, 6, 6, 3)


def test_what_is_measured() -> None:
    """Utility 2 ** k doubles with every word; redundancy, 1 for each pair, outgrows it."""
    gains = constructed_gains(lambda words: 2.0 ** len(words) - 1, 8, lambda_=0.5)
    pair_gains(gains)
    greedy = beam_search(gains, 3, 1)[-1]
    parts = measure_submodularity(gains, greedy, {0, 1, 2}, seed=1)
    assert [(part.function, part.after) for part in parts] == [
        ("gain", "no word"),
        ("gain", "words"),
        ("utility", "no word"),
        ("utility", "words"),
    ]
    gain, utility = parts[0], parts[2]
    triples = 7 * 6 * 5 // 6  # of three good words and four drawn ones
    assert len(utility.ratios) == 8 * 7 // 2 + triples
    assert sorted(set(utility.ratios)) == pytest.approx([3 / 7, 2 / 3])
    assert sorted(set(gain.ratios)) == pytest.approx([3 / 5.5, 2 / 2.5])
    assert utility.returns == MarginalReturns(56, 56, 8, 0)
    # after the words L the same function only begins later: the same ratios
    assert sorted(set(np.round(parts[3].ratios, 6))) == pytest.approx([3 / 7, 2 / 3], abs=1e-6)
    assert measure_submodularity(gains, greedy, {0, 1, 2}, seed=1) == parts
    without = constructed_gains(lambda words: float(len(words)), 8)
    pair_gains(without)
    beam_search(without, 3, 1)
    alone = measure_submodularity(without, (0, 1, 2), {0, 1}, seed=1)
    assert {part.function for part in alone} == {"utility"}  # with lambda 0 it is the gain
    assert {round(ratio, 6) for part in alone for ratio in part.ratios} == {1.0}
