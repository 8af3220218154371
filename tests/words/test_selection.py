"""A selection: numbers by hand, plain values there and back, and how people see it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from ipl.backbone.backbone import Backbone
from ipl.support.plain_values import from_plain
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import (
    Certainty,
    RankedWord,
    Selection,
    SelectionStep,
    selection_report,
    words_table,
)

POOL = Pool.from_words(("adopt", "blue", "furry", "heather", "phone", "pile", "social"), "test")


def step(word: str, gain: float, compared: int = 0, rising: int = 0, **more: object):
    values = {
        "utility": gain + 0.5,
        "redundancy": 0.25,
        "loss": 1.0,
        "runners_up": (RankedWord("other", gain - 1), RankedWord("last", gain - 2)),
        "scored": 7,
        "seconds": 0.5,
        **more,
    }
    return SelectionStep(word=word, gain=gain, compared=compared, rising=rising, **values)


@pytest.fixture
def three() -> Selection:
    steps = (
        step("furry", 1.5),
        step("blue", 0.25, 10, 3),
        step("adopt", -0.5, 8, 1, utility=-0.25),
    )
    return Selection(steps, 2.0, "a {cls} {words}", 0.1, "paper", "text", 7, "ab" * 32, "exact")


def test_diminishing_returns_by_hand(three: Selection) -> None:
    assert three.diminishing_returns() == {
        "gains": [1.5, 0.25, -0.5],
        "objective": [1.5, 1.75, 1.25],
        "pairs": 18,
        "violations": 4,
        "share": 4 / 18,
    }
    assert three.first(1).diminishing_returns()["share"] is None
    nothing = {"gains": [], "objective": [], "pairs": 0, "violations": 0, "share": None}
    assert three.first(0).diminishing_returns() == nothing


def test_the_first_words(three: Selection) -> None:
    assert three.words == ("furry", "blue", "adopt")
    for k in range(5):
        fewer = three.first(k)
        assert fewer.words == three.words[:k]
        assert replace(fewer, steps=three.steps) == three
    assert three.first(3) == three
    assert (three.harmful, three.first(2).harmful) == (("adopt",), ())
    assert three.first(2).notes == ()
    assert "'adopt' has a negative gain" in three.notes[0]


def test_a_word_that_raises_the_loss_is_pointed_out(three: Selection) -> None:
    unlike = step("phone", 0.25, utility=-0.25)
    (note,) = replace(three, steps=(three.steps[0], unlike)).notes
    assert "'phone' raises the loss" in note
    assert f"redundancy {unlike.redundancy:.4f}" in note


def test_plain_values_there_and_back(three: Selection) -> None:
    recalled = replace(three, steps=(*three.steps, step("phone", 0.0, recalled=True)))
    for selection in (three, three.first(0), recalled):
        text = json.dumps(selection.as_dict(), allow_nan=False)
        assert from_plain(Selection, json.loads(text)) == selection
        assert from_plain(Selection, json.loads(text)).as_dict() == selection.as_dict()
    values = three.as_dict()
    assert values["words"] == ["furry", "blue", "adopt"]
    assert values["steps"][0]["runners_up"] == [["other", 0.5], ["last", -0.5]]
    assert (values["certified"], values["recall"], values["search"]) == (True, None, "exact")


@pytest.mark.parametrize("mode", ["exact", "exhaustive", "screen", "lazy"])
def test_a_real_trace_survives_json(pocket: Backbone, few_images: tuple, mode: str) -> None:
    scorer = SentenceScorer(pocket, ["cat", "ox", "pirate ship"], *few_images)
    found = greedy_search(scorer, POOL, 3, search=Search(mode))
    assert from_plain(Selection, json.loads(json.dumps(found.as_dict(), allow_nan=False))) == found
    assert (found.pool_sha256, found.pool_size) == (POOL.sha256, len(POOL))
    assert found.search == mode


def test_recall_and_certified_are_over_all_steps(three: Selection) -> None:
    def with_recall(*values: bool | None) -> Selection:
        return replace(three, steps=tuple(step("w", 1.0, recalled=value) for value in values))

    assert three.recall is None
    assert with_recall(True, True).recall == 1.0
    assert with_recall(True, False, False, False).recall == 0.25
    assert with_recall(None, False, True).recall == 0.5
    assert three.certified
    guessed = replace(three, steps=(three.steps[0], replace(three.steps[1], certified=False)))
    assert not guessed.certified
    assert guessed.first(1).certified


# -- the table of words and the report -------------------------------------------------------------


@pytest.fixture
def selection() -> Selection:
    runners_up = tuple(RankedWord(word, 0.5) for word in ("pile", "phone", "social", "heather"))
    steps = (
        SelectionStep(
            *("furry", 2.0, 0.25, 1.975, 1.0, runners_up, 7, 0.5),
            compared=10,
            rising=3,
            certainty=Certainty(0.934, 1.5, 2.25),
        ),
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
    columns = ("word", "gain", "90 % interval", "wins", "redundancy", "loss after", "next best")
    assert table.columns == columns
    assert table.numeric == (False, True, True, True, True, True, False)
    interval = "+1.5000 to +2.2500"
    assert table.rows == (
        ("(none)", "", "", "", "", "2.0000", ""),
        ("furry", "+1.9750", interval, "93 %", "0.2500", "1.0000", "pile, phone, social"),
        ("blue", "-0.3000", "", "", "0.5000", "1.2500", ""),
    )


@pytest.mark.parametrize(
    ("certainty", "expected"),
    [
        (Certainty(0.934, 1.5, 2.25), "'furry' wins 93 of 100 resamples (gain +1.9750, from"),
        (
            Certainty(0.12, 0.5, 2.25),
            "'furry' wins only 12 of 100 resamples: it is not distinguishable from the next 4",
        ),
        (Certainty(0.6, -0.5, 2.25), "from -0.5000 to +2.2500, which may as well be 0)."),
        (Certainty(0.6, -0.5, -0.25), "from -0.5000 to -0.2500, which is below 0)."),
    ],
)
def test_how_sure_a_word_is(selection: Selection, certainty: Certainty, expected: str) -> None:
    step = replace(selection.steps[0], certainty=certainty)
    assert expected in step.how_sure
    assert step.earns_its_place == (certainty.low > 0)
    assert expected in report(replace(selection, steps=(step,)))


def test_a_word_of_an_old_run_claims_nothing(selection: Selection) -> None:
    step = selection.steps[1]
    assert step.how_sure == ""
    assert not step.earns_its_place


def test_a_search_that_stopped_says_so(selection: Selection) -> None:
    noise = replace(selection.steps[0], certainty=Certainty(0.1, -0.1, 0.1))
    stopped = replace(selection.first(0), stopped_before=noise)
    assert "The search stopped before 'furry'" in report(stopped)
    assert "No word earned its place" in stopped.notes[0]
    later = replace(selection.first(1), stopped_before=noise)
    assert later.notes == ()
    assert "The search stopped before 'furry'" in report(later)
    assert from_plain(Selection, json.loads(json.dumps(later.as_dict()))) == later
    assert later.first(1) == later
    assert later.first(0).stopped_before is None


def test_the_report_says_what_was_proved(selection: Selection) -> None:
    text = report(selection)
    assert "Proved (exhaustive): no other word has a higher gain at its step" in text
    assert "the loss of 7 and 6 of 7 words was computed, 0.8 s." in text
    assert "gain = utility - 0.1 * redundancy" in text
    assert "rose from one step to the next in 30.0 % of 10 cases" in text
    assert "The shortlist contained the true winner at 1 of 2 steps (blue)." in text


def test_the_report_of_an_approximate_search(selection: Selection) -> None:
    first = replace(selection.steps[0], certified=False)
    text = report(replace(selection, steps=(first,), search="lazy"))
    assert "Approximate (lazy): the loss of 7 of 7 words" in text
    assert "Another word may be better." in text
    assert "rose from" not in text  # the words scored were picked out


def test_the_report_of_no_words(selection: Selection) -> None:
    assert report(selection.first(0)) == "The number of words is 0.\n"
