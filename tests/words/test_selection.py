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
    SelectionStep,
    selection_report,
    words_table,
)


def step(word: str, gain: float, **more: object):
    values = {
        "utility": gain + 0.5,
        "redundancy": 0.25,
        "loss": 1.0,
        "accuracy": 0.5,
        "runners_up": (RankedWord("other", gain - 1), RankedWord("last", gain - 2)),
        "checked": 7,
        "seconds": 0.5,
        "margin": 0.0,
        "certainty": Certainty(0.934, 1.75, 1.5, 2.25),
        **more,
    }
    return SelectionStep(word=word, gain=gain, **values)


@pytest.fixture
def three() -> Selection:
    steps = (
        step("furry", 1.5),
        step("blue", 0.25),
        step("adopt", -0.5, utility=-0.25),
    )
    return Selection(
        steps, 2.0, "a {cls} {words}", 0.1, "paper", "text", 7, "ab" * 32, "paper", 0.25, "exact"
    )


def test_the_first_words(three: Selection) -> None:
    assert three.words == ("furry", "blue", "adopt")
    for k in range(5):
        assert three.first(k).words == three.words[:k]
    assert three.first(3) == three
    assert three.first(2).notes == ()
    assert "'adopt' has a negative gain" in three.notes[0]


def test_a_word_that_raises_the_loss_is_pointed_out(three: Selection) -> None:
    unlike = step("phone", 0.25, utility=-0.25)
    (note,) = replace(three, steps=(three.steps[0], unlike)).notes
    assert "'phone' raises the loss" in note
    assert f"redundancy {unlike.redundancy:.4f}" in note


def test_plain_values_there_and_back(three: Selection) -> None:
    for selection in (three, three.first(0)):
        text = json.dumps(selection.as_dict(), allow_nan=False)
        assert from_plain(Selection, json.loads(text)) == selection
        assert from_plain(Selection, json.loads(text)).as_dict() == selection.as_dict()
    values = json.loads(json.dumps(three.as_dict()))
    assert values["words"] == ["furry", "blue", "adopt"]
    assert values["steps"][0]["runners_up"] == [["other", 0.5], ["last", -0.5]]
    assert (values["search"], values["how_checked"]) == ("exact", "All 7 words scored in fp32.")


# -- the table of words and the report -------------------------------------------------------------


@pytest.fixture
def selection() -> Selection:
    runners_up = tuple(RankedWord(word, 0.5) for word in ("pile", "phone", "social", "heather"))
    steps = (
        step("furry", 1.975, loss=1.0, accuracy=0.75, runners_up=runners_up),
        step("blue", -0.3, loss=1.25, accuracy=0.625, seconds=0.25),
    )
    return Selection(
        steps, 2.0, "a {cls} {words}", 0.1, "paper", "text", 7, "ab" * 32, "paper", 0.5
    )


def report(selection: Selection) -> str:
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(selection_report(selection))
    return captured.get()


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
        ("blue", "-0.3000", *held_out, "62.5 %", "1.2500", "other, last"),
    ]


@pytest.mark.parametrize(
    ("certainty", "expected", "earns"),
    [
        (Certainty(0.934, 1.75, 1.5, 2.25), "'furry' wins 93 of 100 resamples", True),
        (Certainty(0.12, 1.75, 0.5, 2.25), "'furry' wins only 12 of 100 resamples", True),
        (Certainty(0.6, 1.0, -0.5, 2.25), "-0.5000 to +2.2500, which may as well be 0", False),
        (Certainty(0.6, -0.3, -0.5, -0.25), "-0.5000 to -0.2500, which is below 0", False),
    ],
)
def test_how_sure_a_word_is(
    selection: Selection, certainty: Certainty, expected: str, earns: bool
) -> None:
    step = replace(selection.steps[0], certainty=certainty)
    assert expected in step.how_sure
    assert step.earns_its_place == earns
    assert expected in report(replace(selection, steps=(step,)))
    assert not replace(step, gain=-0.1).earns_its_place


def test_a_search_that_stopped_says_so(selection: Selection) -> None:
    noise = replace(selection.steps[0], certainty=Certainty(0.1, 0.0, -0.1, 0.1))
    stopped = replace(selection.first(0), stopped_before=noise)
    assert "The search stopped before 'furry'" in report(stopped)
    assert "No word earned its place" in stopped.notes[0]
    later = replace(selection.first(1), stopped_before=noise)
    assert later.notes == ()
    assert "The search stopped before 'furry'" in report(later)
    assert from_plain(Selection, json.loads(json.dumps(later.as_dict()))) == later
    assert later.first(1) == later
    assert later.first(0).stopped_before is None


def test_the_report_says_how_many_words_were_scored_in_fp32(selection: Selection) -> None:
    assert "All 7 words scored in fp32. It took 0.8 s." in report(selection)
    many = replace(selection, pool_size=8900)
    first, second = (replace(step, checked=64) for step in many.steps)
    steps = (replace(first, margin=0.01), replace(second, margin=0.0213))
    text = report(replace(many, steps=steps))
    assert "Checked: the best 64 of 8,900 scored in fp32, margin 0.021. It took 0.8 s." in text
    steps = (steps[0], replace(steps[1], checked=128))
    assert "the best 64 and 128 of 8,900" in report(replace(many, steps=steps))
    assert "gain = utility - 0.1 * redundancy" in text
