"""How many words a fit takes: with auto, and by the paper's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset
from ipl.training.fit import fit
from ipl.training.result import FitResult
from ipl.words.pool import Pool

QUICK: dict[str, Any] = {"shots": 4, "epochs": 12, "interval": 2, "views": 0, "cache": False}
POOL = Pool.from_words(["beach", "blue", "dark", "paint", "rock", "sand", "sky", "wall"], "test")


@pytest.fixture(scope="module")
def fitted(scenes: Dataset, pocket: Backbone) -> Callable[..., FitResult]:
    """Returns a maker of quick fits: fitted(words=2)."""
    store = FeatureStore(pocket)
    five = scenes.only(range(5), "five scenes")

    def make(pool: Pool = POOL, **settings: Any) -> FitResult:
        config = FitConfig(**{**QUICK, **settings})
        return fit(config, five, pocket, pool=pool, features=store)

    return make


def test_auto_takes_the_words_that_earn_their_place(fitted: Callable[..., FitResult]) -> None:
    result = fitted(words="auto")
    selection = result.selection
    assert selection is not None
    assert all(step.earns_its_place for step in selection.steps)
    assert result.layout.slots == len(result.words) == len(selection.steps)
    if len(result.words) < 6:
        assert selection.stopped_before is not None
        assert not selection.stopped_before.earns_its_place
    for arm in ({"empty_slots": True}, {"random_words": 1}):
        control = fitted(words="auto", **arm)
        assert control.layout.slots == result.layout.slots
        assert control.selection is None
        assert not set(control.words) & set(result.words)


def test_auto_without_a_word_is_the_plain_learner(fitted: Callable[..., FitResult]) -> None:
    """With much redundancy to pay for, or words that do not help, no word is taken."""
    useless = Pool.from_words(["phone", "social", "adopt"], "test")
    result = fitted(words="auto", pool=useless)
    plain = fitted(words=0)
    assert result.words == ()
    assert result.prompt == plain.prompt
    used, expected = result.hyperparameters, plain.hyperparameters
    assert (used.epochs, used.m, used.lr) == (expected.epochs, expected.m, expected.lr)
    assert torch.equal(result.tensors["soft"], plain.tensors["soft"])
    assert any("The prompt has no words" in note for note in result.notes)


def test_the_papers_rule_tries_one_to_six_words(fitted: Callable[..., FitResult]) -> None:
    result = fitted(words="paper")
    assert [trial.words for trial in result.trials] == [1, 2, 3, 4, 5, 6]
    best = max(result.trials, key=lambda trial: (trial.accuracy, -trial.loss, -trial.words))
    assert len(result.words) == best.words
