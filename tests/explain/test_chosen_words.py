"""Ranks and leads from a trace written by hand."""

from __future__ import annotations

import pytest

from ipl.explain.chosen_words import word_facts
from ipl.words.selection import RankedWord, Selection, SelectionStep


def _step(word: str, gain: float, others: dict[str, float]) -> SelectionStep:
    runners = tuple(RankedWord(name, value) for name, value in others.items())
    return SelectionStep(word, gain + 0.05, 0.5, gain, 2.0 - gain, runners, len(others) + 1, 0.1)


def _selection(*steps: SelectionStep) -> Selection:
    return Selection(steps, 2.0, "a {cls}: {words}", 0.1, "paper", "text", 100, "0" * 64, "lazy")


def test_places_leads_and_earlier_places() -> None:
    first = _step("sand", 1.0, {"stone": 0.9, "water": 0.4})
    second = _step("water", 0.3, {"stone": 0.1})
    third = _step("wall", 0.2, {})
    sand, water, wall = word_facts(_selection(first, second, third))
    assert (sand.place, sand.lead, sand.earlier) == (1, pytest.approx(0.1), ())
    assert (water.place, water.lead, water.earlier) == (1, pytest.approx(0.2), (3,))
    assert (wall.place, wall.lead, wall.earlier) == (1, None, (None, None))
    assert [r.word for r in sand.best] == ["sand", "stone", "water"]


def test_a_word_that_was_not_the_best_says_so() -> None:
    (facts,) = word_facts(_selection(_step("sand", 0.5, {"stone": 0.9, "water": 0.4})))
    assert facts.place == 2
    assert facts.lead == pytest.approx(-0.4)


def test_no_more_than_twenty_are_ranked() -> None:
    (facts,) = word_facts(_selection(_step("sand", 9.0, {f"w{i}": i / 10 for i in range(30)})))
    assert len(facts.best) == 20
    assert facts.best[1].word == "w29"
