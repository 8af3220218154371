"""A typed word has the gain that the search would find; what cannot be a word is refused."""

from __future__ import annotations

import pytest

from ipl import Backbone, Pool
from ipl.apps.workbench.sessions import Session
from ipl.apps.workbench.word_gain import clean_word
from ipl.support.errors import DataError
from ipl.words.selection import RankedWord


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def test_the_winner_of_a_step_has_the_gain_that_the_search_recorded(
    fitted_session: Session,
) -> None:
    assert fitted_session.selection is not None
    for position, step in enumerate(fitted_session.selection.steps):
        last = fitted_session.score_word(step.word, 3, 1).steps[-1]
        assert last.after == fitted_session.selection.words[:position]
        assert last.selected == last.typed
        assert last.typed.gain == close(step.gain)
        assert last.typed.utility == close(step.utility)
        assert last.typed.redundancy == close(step.redundancy)
        assert last.typed.loss == close(step.loss)


def test_a_runner_up_has_its_gain_too_at_every_step(fitted_session: Session) -> None:
    assert fitted_session.selection is not None
    steps = fitted_session.selection.steps
    other: RankedWord = steps[1].runners_up[0]
    gains = fitted_session.score_word(f"  {other.word.upper()} ", 3, 1).steps
    assert [len(step.after) for step in gains] == [0, 1, 2]
    assert gains[1].typed.gain == close(other.gain)
    assert gains[0].typed.gain == close(dict(steps[0].runners_up)[other.word])
    assert [step.selected and step.selected.word for step in gains] == [
        *fitted_session.selection.words,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No word is given"),
        ("two words", "'two words' is more than one word"),
        ("it's", '"it\'s" has characters other than letters'),
        ("towerlike", "Did you mean 'tower'"),
    ],
)
def test_what_cannot_be_a_word_is_refused(text: str | None, message: str, pocket: Backbone) -> None:
    with pytest.raises(DataError, match=message):
        clean_word(text, pocket, Pool.from_words(["tower", "wall"], "two"))
