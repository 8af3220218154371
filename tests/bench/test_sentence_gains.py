"""Gains and searches against plain loops over whole sentences."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.bench.sentence_gains import SentenceGains, Words, beam_search, best_pair, pair_gains
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.scorer import SentenceScorer
from tests.helpers.constructed_gains import constructed_gains
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_pairs_are_those_of_a_plain_loop(pocket: Backbone, few_images: Images, preset: str) -> None:
    objective = Objective(0.3, preset)
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    embeddings = objective.embed_words(pocket, POOL.words)
    gains = SentenceGains(scorer, POOL.words, objective, embeddings)
    pairs = pair_gains(gains)
    without = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    e = normalize(pocket.encode_texts(list(POOL.words)), dim=-1)
    expected = np.full((len(POOL), len(POOL)), np.nan)
    for i, j in permutations(range(len(POOL)), 2):
        loss = plain_loss(pocket, few_images, prompts_with([POOL.words[i], POOL.words[j]]))
        expected[i, j] = without - loss - 0.3 * float(e[i] @ e[j])
    np.testing.assert_allclose(pairs, expected, atol=3e-4)
    assert best_pair(pairs) == divmod(int(np.nanargmax(expected)), len(POOL))
    # the third word's redundancy is the sum of two cosines, or their mean
    gains.compute((2, 5), [7])
    cosines = [float(e[7] @ e[2]), float(e[7] @ e[5])]
    third = sum(cosines) if preset == "paper" else sum(cosines) / 2
    assert gains.redundancy((2, 5, 7)) == pytest.approx(float(e[2] @ e[5]) + third, abs=1e-4)


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_a_beam_of_one_is_the_greedy_search(
    pocket: Backbone, few_images: Images, preset: str
) -> None:
    objective = Objective(0.3, preset)
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    gains = SentenceGains(scorer, POOL.words, objective, objective.embed_words(pocket, POOL.words))
    found = beam_search(gains, 4, 1)
    selection = greedy_search(scorer, POOL, 4, objective, Search("exhaustive"))
    assert tuple(POOL.words[word] for word in found[-1]) == selection.words
    assert [len(words) for words in found] == [1, 2, 3, 4]
    total = sum(step.gain for step in selection.steps)
    assert gains.gain(found[-1]) == pytest.approx(total, abs=1e-4)
    widest = beam_search(gains, 2, len(POOL))[-1]  # every first word stays in the beam
    assert gains.gain(widest) >= gains.gain(found[1])


def test_a_beam_finds_what_greedy_search_misses() -> None:
    single: dict[Words, float] = {(0,): 3.0, (1,): 2.0, (2,): 1.0}
    gains = constructed_gains(
        lambda words: 9.0 if words == (2, 1) else single.get(words[:1], 0.0), 4
    )
    assert beam_search(gains, 2, 1)[-1] == (0, 1)  # of words that add nothing, the first
    assert beam_search(gains, 2, 2)[-1] == (0, 1)
    assert beam_search(gains, 2, 3)[-1] == (2, 1) == best_pair(pair_gains(gains))


def test_a_beam_keeps_one_order_of_the_same_words() -> None:
    """Only (0, 2, 3) is good: a beam of two that kept (0, 1) and (1, 0) would miss it."""
    worth = {(0, 1): 5.0, (1, 0): 4.0, (0, 2): 3.0, (0, 2, 3): 9.0}
    gains = constructed_gains(lambda words: worth.get(words, 2.0 - min(words, default=0)), 4)
    assert beam_search(gains, 3, 2)[-1] == (0, 2, 3)
