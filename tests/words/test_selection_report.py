"""A selection as people see it: the table of its words and the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from ipl.words.selection import (
    RankedWord,
    Selection,
    SelectionStep,
    selection_report,
    words_table,
)


@pytest.fixture
def selection() -> Selection:
    runners_up = tuple(RankedWord(word, 0.5) for word in ("pile", "phone", "social", "heather"))
    steps = (
        SelectionStep("furry", 2.0, 0.25, 1.975, 1.0, runners_up, 7, 0.5, compared=10, rising=3),
        SelectionStep("blue", -0.25, 0.5, -0.3, 1.25, (), 6, 0.25, recalled=True),
    )
    return Selection(steps, 2.0, "a {cls} {words}", 0.1, "paper", "text", 7, "ab" * 32)


def report(selection: Selection) -> str:
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(selection_report(selection))
    return captured.get()


def test_the_table_has_a_row_for_each_word_and_one_for_none(selection: Selection) -> None:
    table = words_table(selection)
    assert table.columns == ("word", "gain", "utility", "redundancy", "loss after", "next best")
    assert table.numeric == (False, True, True, True, True, False)
    assert table.rows == (
        ("(none)", "", "", "", "2.0000", ""),
        ("furry", "+1.9750", "+2.0000", "0.2500", "1.0000", "pile, phone, social"),
        ("blue", "-0.3000", "-0.2500", "0.5000", "1.2500", ""),
    )


def test_the_report_says_what_was_proved(selection: Selection) -> None:
    text = report(selection)
    assert "Proved (exhaustive): no other word has a higher gain at its step" in text
    assert "the loss of 7, 6 of 7 words was computed, 0.8 s." in text
    assert "gain = utility - 0.1 * redundancy" in text
    assert "rose from one step to the next in 30.0 % of 10 cases" in text
    assert "The shortlist held the true winner at 1 of 2 steps (blue)." in text


def test_the_report_of_an_approximate_search(selection: Selection) -> None:
    first = replace(selection.steps[0], certified=False)
    text = report(replace(selection, steps=(first,), search="lazy"))
    assert "Approximate (lazy): the loss of 7 of 7 words" in text
    assert "Another word may be better." in text
    assert "rose from" not in text  # the words scored were picked out


def test_the_report_of_no_words(selection: Selection) -> None:
    assert report(selection.first(0)) == "No words were asked for.\n"
