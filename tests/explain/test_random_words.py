"""Random words are as frequent, never the chosen ones, and ranked correctly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipl.explain.random_words import draw_random_words, rank_among
from ipl.explain.report import Analysis
from ipl.words.pool import Pool


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


def test_given_words_outside_the_pool_and_of_several_tokens_are_replaced(
    analysis: Analysis, pool: Pool
) -> None:
    run = analysis.run
    layout = run.learner.layout.with_slot_sizes([1, 2])
    learner = run.learner.rebuilt(layout=layout, words=["Zebra", "pirate ship"])
    given = replace(run, learner=learner, result=replace(run.result, words=learner.words))
    drawn = draw_random_words(given)
    assert len(drawn.draws) == 20
    for draw in drawn.draws:
        first, second = draw[0], draw[1].split()
        assert len({first, *second}) == 3
        assert {first, *second} <= set(pool.words)
        assert learner.rebuilt(words=draw).words == draw
