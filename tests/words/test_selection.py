"""A selection: numbers by hand, plain values there and back, and how people see it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from ipl.support.plain_values import from_plain
from ipl.words.selection import (
    Certainty,
    RankedWord,
    Selection,
    selection_report,
    words_table,
)
from tests.helpers.selections import make_selection, make_step


@pytest.fixture
def selection() -> Selection:
    runners_up = tuple(RankedWord(word, 0.5) for word in ("pile", "phone", "social", "heather"))
    return make_selection(
        make_step("furry", 1.975, accuracy=0.75, runners_up=runners_up),
        make_step("blue", -0.3, loss=1.25, accuracy=0.625, seconds=0.25),
    )


def report(selection: Selection) -> str:
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(selection_report(selection))
    return captured.get()


def test_the_first_words_and_their_warnings(selection: Selection) -> None:
    for k in range(4):
        assert selection.first(k).words == ("furry", "blue")[:k]
    assert selection.first(2) == selection
    assert selection.first(1).notes == ()
    assert "'blue' has a negative gain" in selection.notes[0]
    unlike = make_step("phone", 0.25, utility=-0.25, redundancy=-5.0)
    (note,) = replace(selection, steps=(selection.steps[0], unlike)).notes
    assert "'phone' raises the loss" in note


def test_plain_values_there_and_back(selection: Selection) -> None:
    stopped = replace(selection.first(1), stopped_before=selection.steps[1])
    for each in (selection, selection.first(0), stopped):
        text = json.dumps(each.as_dict(), allow_nan=False)
        assert from_plain(Selection, json.loads(text)) == each
    values = json.loads(json.dumps(selection.as_dict()))
    assert values["words"] == ["furry", "blue"]
    assert values["steps"][0]["runners_up"][:2] == [["pile", 0.5], ["phone", 0.5]]
    assert (values["search"], values["how_checked"]) == ("exact", "All 7 words scored in fp32.")


def test_the_table_has_a_row_for_each_word_and_one_for_none(selection: Selection) -> None:
    table = words_table(selection)
    numbers = ("gain", "held-out gain", "90 % interval", "wins", "accuracy", "loss after")
    assert table.columns == ("word", *numbers, "next best")
    held_out = ("+1.7500", "+1.5000 to +2.2500", "93 %")
    assert [
        tuple(str(cell).replace("\N{NO-BREAK SPACE}", " ") for cell in r) for r in table.rows
    ] == [
        ("(none)", "", "", "", "", "50.0 %", "2.0000", ""),
        ("furry", "+1.9750", *held_out, "75.0 %", "1.0000", "pile, phone, social"),
        ("blue", "\N{MINUS SIGN}0.3000", *held_out, "62.5 %", "1.2500", "other, last"),
    ]


@pytest.mark.parametrize(
    ("certainty", "expected", "earns"),
    [
        (Certainty(0.934, 1.75, 1.5, 2.25), "'furry' wins 93 of 100 resamples", True),
        (Certainty(0.12, 1.75, 0.5, 2.25), "'furry' wins only 12 of 100 resamples", True),
        (
            Certainty(0.6, 1.0, -0.5, 2.25),
            "\N{MINUS SIGN}0.5000 to +2.2500, which may as well be 0",
            False,
        ),
        (
            Certainty(0.6, -0.3, -0.5, -0.25),
            "\N{MINUS SIGN}0.5000 to \N{MINUS SIGN}0.2500, which is below 0",
            False,
        ),
    ],
)
def test_how_sure_a_word_is(
    selection: Selection, certainty: Certainty, expected: str, earns: bool
) -> None:
    step = replace(selection.steps[0], certainty=certainty)
    assert step.earns_its_place == earns
    assert expected in report(replace(selection, steps=(step,)))
    assert not replace(step, gain=-0.1).earns_its_place


def test_a_search_that_stopped_says_so(selection: Selection) -> None:
    for k, notes in ((0, 1), (1, 0)):  # that no word earned its place, if there is none
        stopped = replace(selection.first(k), stopped_before=selection.steps[1])
        assert "The search stopped before 'blue'" in report(stopped)
        assert len(stopped.notes) == notes
    assert stopped.first(1) == stopped
    assert stopped.first(0).stopped_before is None


def test_the_report_says_how_many_words_were_scored_in_fp32(selection: Selection) -> None:
    assert "All 7 words scored in fp32. It took 0.8 s." in report(selection)
    first, second = selection.steps
    steps = (replace(first, checked=64, margin=0.01), replace(second, checked=128, margin=0.0213))
    text = report(replace(selection, pool_size=8900, steps=steps))
    assert "Checked: the best 64 and 128 of 8,900 scored in fp32, margin 0.021." in text
    assert "gain = utility - 0.1 * redundancy" in text
