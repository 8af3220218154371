"""Ranks and leads from a trace written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipl.display.document import Paragraph, Section, Table
from ipl.explain.chosen_words import word_facts, words_section
from ipl.words.selection import Certainty, RankedWord, Selection, SelectionStep, certainty_sentences


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


def _text(section: Section) -> str:
    return " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_how_sure_each_word_is_and_where_the_search_stopped() -> None:
    sand = replace(_step("sand", 0.5, {"stone": 0.4}), certainty=Certainty(0.93, 0.2, 0.8))
    wet = replace(_step("wet", 0.1, {"stone": 0.09}), certainty=Certainty(0.2, -0.1, 0.3))
    selection = replace(_selection(sand), stopped_before=wet)
    sure, stopped = certainty_sentences(selection)
    assert sure == sand.how_sure
    assert stopped == f"The search stopped before 'wet': {wet.how_sure}"
    assert "may as well be 0" in stopped
    section = words_section(word_facts(selection), selection, "")
    assert stopped in _text(section)
    assert sand.how_sure in _text(section)
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert table.rows[1][:4] == ("sand", "+0.5000", "+0.2000 to +0.8000", "93\N{NO-BREAK SPACE}%")
    nothing = replace(selection, steps=())
    section = words_section((), nothing, "")
    assert "No word earned its place" in _text(section)
    assert stopped in _text(section)


def test_an_old_selection_says_nothing_about_certainty() -> None:
    selection = _selection(_step("sand", 0.5, {"stone": 0.4}))
    assert certainty_sentences(selection) == []
    section = words_section(word_facts(selection), selection, "")
    assert "drawn anew" not in _text(section)
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert table.columns == ("word", "gain", "utility", "redundancy", "loss after")
