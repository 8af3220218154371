"""Random words are as frequent, never the chosen ones, and ranked correctly."""

from __future__ import annotations

import numpy as np
import pytest

from ipl.explain.random_words import NEAR, draw_words, frequencies, rank_among
from ipl.explain.report import Analysis
from ipl.words.filters import FilterUnavailable
from ipl.words.pool import Pool


def test_rank_among_counts_lower_losses() -> None:
    assert rank_among(1.0, [2.0, 3.0]) == 1
    assert rank_among(2.5, [2.0, 3.0]) == 2
    assert rank_among(4.0, [2.0, 3.0]) == 3
    assert rank_among(2.0, [2.0, 2.0]) == 1


def test_drawn_words_are_about_as_frequent() -> None:
    pool = Pool.bundled()
    values = np.arange(len(pool), dtype=np.float64)
    words = (pool.words[100], pool.words[5000])
    drawn = draw_words(pool, values, words, 20)
    assert len(drawn) == 20
    for these in drawn:
        assert not set(these) & set(words)
        assert len(set(these)) == 2
        for word, here in zip(these, (100, 5000), strict=True):
            assert abs(pool.words.index(word) - here) <= NEAR
    assert draw_words(pool, values, words, 20) == drawn
    assert len(set(drawn)) > 10


def test_a_pool_too_small_gives_no_draws(pool: Pool) -> None:
    two = Pool.from_words(("sand", "stone"), "two")
    assert draw_words(two, np.zeros(2), ("sand", "stone"), 20) == []


def test_frequency_without_wordfreq_is_the_vocabularys_order(
    monkeypatch: pytest.MonkeyPatch, pool: Pool
) -> None:
    told, values = frequencies(pool, range(len(pool)))
    assert "Zipf" in told
    assert values.max() < 8

    def missing(word: str) -> float:
        raise FilterUnavailable("no wordfreq")

    monkeypatch.setattr("ipl.explain.random_words.zipf", missing)
    tokens = list(range(100, 100 + len(pool)))[::-1]
    told, values = frequencies(pool, tokens)
    assert "wordfreq is not installed" in told
    assert values.tolist() == list(range(len(pool)))[::-1]


def test_chance_and_its_chosen_words(analysis: Analysis) -> None:
    chance, selection = analysis.random_words, analysis.run.selection
    assert chance is not None
    assert selection is not None
    assert chance.chosen.words == analysis.run.words
    assert chance.chosen.shots_loss == pytest.approx(selection.steps[-1].loss, abs=1e-4)
    assert chance.chosen.prompt == analysis.test
    assert len(chance.draws) == 20
    assert [len(one) for one in chance.singles] == [20, 20]
