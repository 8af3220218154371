"""How sure a word is: resamples within classes, shares of wins, intervals."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.words.certainty import certainty, draw_resamples
from ipl.words.gain import UTILITIES, Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.search import greedy_search
from tests.helpers.reference_loss import Images

NAMES = ("cat", "ox", "pirate ship")
POOL = Pool.from_words(["furry", "blue", "adopt", "pile", "phone", "social"], "test")


def test_resamples_draw_within_each_class() -> None:
    labels = np.array([2, 0, 1, 0, 2, 2, 0, 1, 0])
    weights = draw_resamples(torch.from_numpy(labels), count=500).numpy()
    assert weights.shape == (500, 9)
    for label in range(3):  # as many images of a class as there are
        share = weights[:, labels == label].sum(1)
        assert np.allclose(share, (labels == label).mean())
    assert np.abs(weights.mean(0) - 1 / 9).max() < 0.02  # each image equally often
    assert weights.std() > 0.05


def test_one_image_per_class_is_drawn_from_all_images() -> None:
    weights = draw_resamples(torch.arange(9), count=300).numpy()
    assert np.allclose(weights.sum(1), 1)
    assert weights.std() > 0.05


def test_a_bootstrap_by_hand() -> None:
    """The share of wins and the percentiles are those of a plain loop over resamples."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 5)
    losses, penalties = rng.random((6, 20)), np.array([0.0, 0.05, 0.1, 0.05, 0.0])
    halves = np.arange(20) % 2
    resamples = draw_resamples(torch.from_numpy(labels), count=200)
    gains = losses[0] - losses[1:] - penalties[:, None]
    # The word that is best on half 0 (the last but one) counts on half 1, and the reverse.
    held_out = np.array([gains[4 if half == 0 else 3, i] for i, half in enumerate(halves)])
    wins, means = [], []
    for weights in resamples.numpy():
        counts = np.rint(weights * 20).astype(int)
        drawn = np.repeat(np.arange(20), counts)
        wins.append(gains[:3, drawn].mean(1).argmax() == 0)
        means.append(held_out[drawn].mean())
    expected = (np.mean(wins), held_out.mean(), *np.percentile(means, [5, 95]))
    found = certainty(
        *(resamples, torch.from_numpy(losses)),
        *(torch.from_numpy(penalties), torch.from_numpy(halves)),
    )
    assert astuple(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("utility", UTILITIES)
def test_the_held_out_gain_is_that_of_a_plain_loop(
    pocket: Backbone, few_images: Images, utility: str
) -> None:
    objective = Objective(0.3, utility=utility)
    scorer = SentenceScorer(pocket, NAMES, *few_images, objective=objective)
    entropy, before = scorer.cross_entropy, list[str]()
    for step in greedy_search(scorer, POOL, 2).steps:
        words = [word for word in POOL.words if word not in before]
        features = torch.cat([*scorer.features(before, words)])
        e = objective.embed_words(pocket, [*words, *before])
        penalties = 0.3 * objective.redundancy(e, range(len(words), len(e)))[: len(words)]
        gains = entropy.image_losses(scorer.prompt(before)[None]) - entropy.image_losses(features)
        gains -= penalties[:, None].double()
        total = 0.0
        for half in (0, 1):
            best = gains[:, entropy.halves == half].mean(1).argmax()
            total += float(gains[best, entropy.halves != half].sum())
        assert step.word == words[int(gains.mean(1).argmax())]
        assert step.certainty.held_out_gain == pytest.approx(total / len(few_images[1]), abs=1e-5)
        assert step.certainty.low <= step.certainty.held_out_gain <= step.certainty.high
        before.append(step.word)


def test_noise_has_a_gain_but_no_held_out_gain(pocket: Backbone) -> None:
    """Of many words that have nothing to do with the labels the best gains by luck alone."""
    generator = torch.Generator().manual_seed(2)
    images = normalize(torch.randn(60, 512, generator=generator), dim=-1)
    pool = Pool.from_words(Pool.bundled().words[::90], "test")
    objective = Objective(0.0, utility="calibrated")
    scorer = SentenceScorer(pocket, NAMES, images, torch.arange(60) % 3, objective=objective)
    step = greedy_search(scorer, pool, 1).steps[0]
    assert step.gain > 0
    assert not step.earns_its_place
    found = greedy_search(scorer, pool, 3, stop_at_noise=True)
    assert (found.words, found.stopped_before.word) == ((), step.word)  # type: ignore[union-attr]


def test_a_search_that_stops_at_noise_takes_the_sure_words_alone(
    pocket: Backbone, few_images: Images
) -> None:
    for lambda_ in (0.0, 50.0):
        scorer = SentenceScorer(pocket, NAMES, *few_images, objective=Objective(lambda_))
        all_steps = greedy_search(scorer, POOL, len(POOL)).steps
        sure = [step.earns_its_place for step in all_steps]
        count = sure.index(False) if False in sure else len(sure)
        found = greedy_search(scorer, POOL, len(POOL), stop_at_noise=True)
        assert found.words == tuple(step.word for step in all_steps[:count])
        stopped = found.stopped_before
        assert (stopped.word if stopped else None) == (
            all_steps[count].word if count < len(sure) else None
        )
    assert count < len(sure)  # so much redundancy pays for no word after the first
