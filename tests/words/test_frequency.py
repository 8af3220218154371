"""Random words: as frequent as the given ones, never one of them, other ones for each draw."""

from __future__ import annotations

import random

import pytest

from ipl.support.errors import ConfigError
from ipl.words.filters import FilterUnavailable, zipf
from ipl.words.frequency import NEAR, RandomWords
from ipl.words.pool import Pool
from ipl.words.zipf import zipf_of


def test_drawn_words_are_about_as_frequent() -> None:
    pool = Pool.bundled()
    source = RandomWords(pool, range(len(pool)))
    assert "Zipf" in source.measure
    words, stream = ("people", "furry"), random.Random(1)
    values = sorted(abs(zipf_of(word) - zipf_of("furry")) for word in pool.words)
    draws = [source.draw(words, stream) for _ in range(20)]
    for drawn in draws:
        assert not set(drawn) & set(words)
        assert len(set(drawn)) == 2
        assert abs(zipf_of(drawn[1]) - zipf_of("furry")) <= values[NEAR + 2]
    assert len(set(draws)) > 10
    assert source.draw(words, random.Random(1)) == draws[0]


def test_the_frequencies_of_the_package_are_those_of_wordfreq(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("wordfreq")
    for word in Pool.bundled().words[::450]:
        assert zipf_of(word) == pytest.approx(zipf(word), abs=0.006)


def test_a_pool_too_small_is_named() -> None:
    pool = Pool.from_words(("sand", "stone"), "two")
    with pytest.raises(ConfigError, match="The pool has 2 words, too few to draw 2 random ones"):
        RandomWords(pool, (1, 2)).draw(("sand", "stone"), random.Random(0))


def test_frequency_without_wordfreq_is_the_vocabularys_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(word: str) -> float:
        raise FilterUnavailable("no wordfreq")

    monkeypatch.setattr("ipl.words.zipf.zipf", missing)
    assert "Zipf" in RandomWords(Pool.bundled(), range(8900)).measure  # in the package
    pool = Pool.from_words((f"blorp{letter}" for letter in "abcdefgh"), "own")
    source = RandomWords(pool, [80, 70, 60, 50, 40, 30, 20, 10])
    assert "wordfreq is not installed" in source.measure
    assert source._values.tolist() == list(range(8))[::-1]
