"""A typed word is weighed as the search weighs it, and one that cannot be is refused."""

from __future__ import annotations

import pytest

from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.word_gain import WordGain, clean_word
from ipl.apps.workbench.workbench import Workbench
from ipl.backbone.clip import Backbone
from ipl.support.errors import DataError
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.selection import RankedWord
from tests.helpers.workbench import learnt, wait_for


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def test_the_winner_of_a_step_has_the_gain_that_the_search_recorded(session: Session) -> None:
    learnt(session)
    assert session.selection is not None
    for place, step in enumerate(session.selection.steps):
        last = session.weigh(step.word, 3, 1).steps[-1]
        assert last.after == session.selection.words[:place]
        assert last.chosen == last.typed
        assert last.typed.gain == close(step.gain)
        assert last.typed.utility == close(step.utility)
        assert last.typed.redundancy == close(step.redundancy)
        assert last.typed.loss == close(step.loss)


def test_a_runner_up_has_its_gain_too_at_every_step(session: Session) -> None:
    learnt(session)
    assert session.selection is not None
    steps = session.selection.steps
    other: RankedWord = steps[1].runners_up[0]
    found = session.weigh(f"  {other.word.upper()} ", 3, 1).steps
    assert [len(one.after) for one in found] == [0, 1, 2]
    assert found[1].typed.gain == close(other.gain)
    assert found[0].typed.gain == close(dict(steps[0].runners_up)[other.word])
    assert [one.chosen and one.chosen.word for one in found] == [*session.selection.words, None]
    assert found[1].chosen is not None
    assert found[1].chosen.gain == close(steps[1].gain)


def test_before_anything_is_learnt_a_word_is_weighed_alone(session: Session) -> None:
    (alone,) = session.weigh("tower", 3, 1).steps
    assert alone.after == ()
    assert alone.chosen is None
    assert alone.typed.redundancy == 0
    assert alone.typed.gain == alone.typed.utility


def test_gain_is_utility_less_lambda_times_redundancy(session: Session) -> None:
    learnt(session)
    last: WordGain = session.weigh("sand", 3, 1).steps[-1]
    typed = last.typed
    assert typed.redundancy > 0
    assert typed.gain == close(typed.utility - Objective().lambda_ * typed.redundancy)


def test_other_shots_give_other_numbers_and_the_same_ones_the_same(session: Session) -> None:
    first = session.weigh("tower", 3, 1)
    assert session.weigh("tower", 1, 1) != first
    assert session.weigh("tower", 3, 1) == first


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (None, "There is no word yet"),
        ("  ", "There is no word yet"),
        ("two words", "'two words' is more than one word"),
        ("it's", '"it\'s" is not made of letters only'),
        ("<b>", "'<b>' is not made of letters only"),
        ("towerlike", "'towerlike' is cut into several pieces"),
    ],
)
def test_what_is_no_word_is_said_in_one_sentence(
    typed: str | None, told: str, pocket: Backbone
) -> None:
    with pytest.raises(DataError, match=told):
        clean_word(typed, pocket, Pool.from_words(["tower", "wall"], "two"))


def test_a_word_that_is_cut_has_others_proposed(pocket: Backbone) -> None:
    with pytest.raises(DataError, match="Did you mean 'tower'"):
        clean_word("towerlike", pocket, Pool.from_words(["tower", "wall"], "two"))


def test_without_images_nothing_can_be_weighed(bench: Workbench) -> None:
    with pytest.raises(DataError, match="two classes or more"):
        bench.open("someone").weigh("tower", 3, 1)


def test_a_word_is_weighed_after_those_of_a_fit_under_way(session: Session) -> None:
    fit = session.learn(WorkbenchSettings("coop", words=1, shots=3, epochs=500, seed=1))
    wait_for(lambda: fit.watcher.progress.selection, fit)
    found = session.weigh("tower", 3, 1).steps
    assert found[0].chosen is not None
    fit.cancel()
    fit.join()
    assert fit.state == "cancelled"
