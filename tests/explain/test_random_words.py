"""Random words are as frequent, never the chosen ones, and ranked correctly."""

from __future__ import annotations

import pytest

from ipl.explain.random_words import rank_among
from ipl.explain.report import Analysis


def test_rank_among_counts_lower_losses() -> None:
    assert rank_among(1.0, [2.0, 3.0]) == 1
    assert rank_among(2.5, [2.0, 3.0]) == 2
    assert rank_among(4.0, [2.0, 3.0]) == 3
    assert rank_among(2.0, [2.0, 2.0]) == 1


def test_chance_and_its_chosen_words(analysis: Analysis) -> None:
    chance, selection = analysis.random_words, analysis.run.selection
    assert chance is not None
    assert selection is not None
    assert chance.chosen.words == analysis.run.words
    assert chance.chosen.shots_loss == pytest.approx(selection.steps[-1].loss, abs=1e-4)
    assert chance.chosen.prompt == analysis.test
    assert len(chance.draws) == 20
    assert [len(one) for one in chance.singles] == [20, 20]
