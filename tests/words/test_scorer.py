"""Losses of candidates against plain loops over whole prompts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ipl.backbone import prefix_cache as prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.support.errors import ConfigError
from ipl.words.scorer import SentenceScorer, check_room
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with

FIVE = POOL.words[:5]


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> SentenceScorer:
    return SentenceScorer(pocket, NAMES, *few_images)


@pytest.mark.parametrize("selected", [[], ["furry"], ["furry", "blue"]])
def test_losses_are_those_of_a_plain_loop(
    pocket: Backbone, few_images: Images, scorer: SentenceScorer, selected: list[str]
) -> None:
    ours = scorer.score(selected, POOL.words)
    loop = [plain_loss(pocket, few_images, prompts_with([*selected, word])) for word in POOL.words]
    torch.testing.assert_close(ours, torch.tensor(loop).double(), atol=1e-4, rtol=0)


def test_the_loss_of_no_words_is_the_plain_prompts(
    pocket: Backbone, few_images: Images, scorer: SentenceScorer
) -> None:
    plain = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    assert scorer.loss([]) == pytest.approx(plain, abs=1e-4)
    several = plain_loss(pocket, few_images, prompts_with(["furry", "blue"]))
    assert scorer.loss(["furry", "blue"]) == pytest.approx(several, abs=1e-4)


def test_the_room_is_counted_exactly(pocket: Backbone, few_images: Images) -> None:
    """The largest k that check_room allows is the largest whose sentence fits."""
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    fits = [k for k in range(1, 60) if _fits(scorer, k)]
    whole = max(len(pocket.tokenize(t)) for t in prompts_with(["blue"] * max(fits))) + 2
    assert whole <= 77 < whole + 2


def _fits(scorer: SentenceScorer, k: int) -> bool:
    try:
        check_room(scorer.template, scorer.backbone, scorer.class_names, k)
    except ConfigError:
        return False
    return True


def test_candidates_must_be_one_token(scorer: SentenceScorer) -> None:
    with pytest.raises(ConfigError, match=r"'pirate ship' is \d tokens"):
        scorer.score([], ["pirate ship"])


def test_too_little_memory_is_said_in_the_numbers_given(
    pocket: Backbone, few_images: Images
) -> None:
    with pytest.raises(ConfigError, match="memory is 2e-05 GiB; 3 prompts need at least 0.00012"):
        SentenceScorer(pocket, NAMES, *few_images, memory=2e-5).score([], FIVE)
    SentenceScorer(pocket, NAMES, *few_images, memory=1.3e-4).score([], FIVE)


def test_a_scorer_survives_words_that_do_not_fit(scorer: SentenceScorer) -> None:
    """Growth that fails half way, or is interrupted, leaves nothing half grown behind."""
    before = scorer.score(["blue"], FIVE)
    with pytest.raises(Exception, match="does not fit the 77 positions"):
        scorer.score(["blue"] * 40, FIVE)
    for selected in (["blue"], [], ["blue", "furry"], ["furry"]):
        expected = SentenceScorer(
            scorer.backbone, NAMES, scorer.cross_entropy.images.float(), scorer.cross_entropy.labels
        ).score(selected, FIVE)
        torch.testing.assert_close(scorer.score(selected, FIVE), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(scorer.score(["blue"], FIVE), before, atol=1e-4, rtol=0)


def test_other_shots_reuse_candidate_features(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a store, a second seed runs the tower only where its words differ."""
    runs: list[int] = []
    run = prefix.CandidatePass.features
    monkeypatch.setattr(
        prefix.CandidatePass,
        "features",
        lambda self, ids: (runs.append(len(ids)), run(self, ids))[1],
    )
    store = FeatureStore(pocket)
    first = SentenceScorer(pocket, NAMES, *few_images, store=store)
    other = SentenceScorer(pocket, NAMES, few_images[0], few_images[1].flip(0), store=store)
    a, b = first.score([], POOL.words), other.score([], POOL.words)
    assert runs == [len(POOL)]
    assert not np.allclose(a, b)
    torch.testing.assert_close(
        b,
        SentenceScorer(pocket, NAMES, few_images[0], few_images[1].flip(0)).score([], POOL.words),
    )
    other.score(["blue"], POOL.words)
    assert sum(runs) == 3 * len(POOL)


def test_a_small_store_forgets(pocket: Backbone, few_images: Images) -> None:
    store = FeatureStore(pocket, text_bytes=len(NAMES) * len(POOL) * 512 * 4)
    scorer = SentenceScorer(pocket, NAMES, *few_images, store=store)
    for selected in ([], ["blue"], []):
        expected = SentenceScorer(pocket, NAMES, *few_images).score(selected, POOL.words)
        assert torch.equal(scorer.score(selected, POOL.words), expected)
    assert len(store._texts) == 1
