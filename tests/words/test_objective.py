"""Utility less redundancy: what is allowed, what the gain is, and what the steps add up to."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.support.errors import ConfigError
from ipl.words.greedy import greedy_search
from ipl.words.objective import Objective
from ipl.words.scorer import SentenceScorer
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with


def test_gain_is_utility_less_lambda_times_redundancy() -> None:
    assert Objective(0.5).gain(2.0, 3.0) == 0.5
    assert Objective(0.0).gain(2.0, 3.0) == 2.0
    gains = Objective(0.5).gain(np.array([2.0, 1.0]), np.array([3.0, -1.0]))
    assert gains.tolist() == [0.5, 1.5]


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> SentenceScorer:
    return SentenceScorer(pocket, NAMES, *few_images)


def test_the_objective_is_the_sum_of_the_steps_gains(
    pocket: Backbone, few_images: Images, scorer: SentenceScorer
) -> None:
    """Utility and redundancy of the set, computed at once, telescope into the increments."""
    found = greedy_search(scorer, POOL, 3, Objective(0.2))
    words = list(found.words)
    e = normalize(pocket.encode_texts(words), dim=-1)
    pairs = sum(float(e[i] @ e[j]) for i, j in itertools.combinations(range(3), 2))
    utility = scorer.loss([]) - plain_loss(pocket, few_images, prompts_with(words))
    assert sum(step.gain for step in found.steps) == pytest.approx(utility - 0.2 * pairs, abs=5e-4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"lambda_": -0.1}, "lambda is -0.1"),
        ({"lambda_": float("nan")}, "lambda is nan"),
        ({"preset": "mine"}, "preset is 'mine'; allowed are paper, reference"),
        ({"word_embedding": "x"}, "word_embedding is 'x'; allowed are text, token"),
    ],
)
def test_what_is_no_objective(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Objective(**arguments)  # type: ignore[arg-type]
