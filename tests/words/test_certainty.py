"""How sure a word is: resamples within classes, shares of wins, intervals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.words.certainty import Resamples
from ipl.words.greedy import greedy_search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Certainty
from tests.helpers.reference_loss import Images

NAMES = ("cat", "ox", "pirate ship")
POOL = Pool.from_words(["furry", "blue", "adopt", "pile", "phone", "social"], "test")


def test_resamples_draw_within_each_class() -> None:
    labels = np.array([2, 0, 1, 0, 2, 2, 0, 1, 0])
    weights = Resamples(torch.from_numpy(labels), count=500).weights.numpy()
    assert weights.shape == (500, 9)
    for label in range(3):  # as many images of a class as there are
        share = weights[:, labels == label].sum(1)
        assert np.allclose(share, (labels == label).mean())
    assert np.abs(weights.mean(0) - 1 / 9).max() < 0.02  # each image equally often
    assert weights.std() > 0.05


def test_one_image_per_class_is_drawn_from_all_images() -> None:
    weights = Resamples(torch.arange(9), count=300).weights.numpy()
    assert np.allclose(weights.sum(1), 1)
    assert weights.std() > 0.05


def test_a_bootstrap_by_hand() -> None:
    """The share of wins and the percentiles are those of a plain loop over resamples."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 5)
    losses, penalties = rng.random((4, 20)), np.array([0.0, 0.05, 0.1])
    resamples = Resamples(torch.from_numpy(labels), count=200)
    gains = []
    for weights in resamples.weights.numpy():
        counts = np.rint(weights * 20).astype(int)
        drawn = np.repeat(np.arange(20), counts)
        gains.append([losses[0, drawn].mean() - losses[w + 1, drawn].mean() for w in range(3)])
    table = np.array(gains) - penalties
    expected = Certainty((table.argmax(1) == 0).mean(), *np.percentile(table[:, 0], [5, 95]))
    found = resamples.certainty(torch.from_numpy(losses), torch.from_numpy(penalties))
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_word_that_helps_every_image_is_sure_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    base, swings = torch.from_numpy(rng.random(40)), torch.from_numpy(rng.normal(size=40))
    resamples = Resamples(torch.arange(5).repeat_interleave(8))
    helps = resamples.certainty(torch.stack([base, base - 0.2, base - 0.1]), torch.zeros(2))
    assert helps.wins == 1.0
    assert (helps.low, helps.high) == pytest.approx((0.2, 0.2))
    swings -= swings.mean()
    noise = resamples.certainty(torch.stack([base, base + swings]), torch.zeros(1))
    assert noise.low < 0 < noise.high


def test_image_losses_add_up_to_the_loss(pocket: Backbone, few_images: Images) -> None:
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    losses = scorer.image_losses(["furry"], ["blue", "adopt"])
    assert losses.shape == (2, len(few_images[1]))
    expected = scorer.score(["furry"], ["blue", "adopt"]).tolist()
    assert losses.mean(1).tolist() == pytest.approx(expected, abs=1e-5)
    assert scorer.losses_without(["furry"]).shape == (len(few_images[1]),)


def test_a_search_that_stops_at_noise_takes_the_sure_words_alone(
    pocket: Backbone, few_images: Images
) -> None:
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    for lambda_ in (0.0, 50.0):
        objective = Objective(lambda_)
        all_steps = greedy_search(scorer, POOL, len(POOL), objective).steps
        sure = [step.earns_its_place for step in all_steps]
        count = sure.index(False) if False in sure else len(sure)
        found = greedy_search(scorer, POOL, len(POOL), objective, stop_at_noise=True)
        assert found.words == tuple(step.word for step in all_steps[:count])
        stopped = found.stopped_before
        assert (stopped.word if stopped else None) == (
            all_steps[count].word if count < len(sure) else None
        )
    assert count < len(sure)  # so much redundancy pays for no word after the first
