"""Algorithm 1 and its promises."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.training.history import EpochRecord
from ipl.training.loop import batches, train
from ipl.training.schedule import learning_rate
from ipl.training.views import BankedViews
from tests.helpers.learners import WORDS, make_learner

RECIPE = Hyperparameters(epochs=6, interval=2, batch=4, lr=0.1, m=2)
Images = tuple[torch.Tensor, torch.Tensor]


def run(
    pocket: Backbone, images: Images, seed: int = 5, hyperparameters: Hyperparameters = RECIPE
) -> tuple[Learner, tuple[EpochRecord, ...]]:
    learner = make_learner(pocket, "coop", 2, placed=False, seed=5)
    views = BankedViews(pocket, images[1], 1, images[0][None], seed=seed)
    return learner, train(learner, views, len(images[1]), WORDS, hyperparameters, seed).epochs


def test_the_learning_rate_rule() -> None:
    rates = [learning_rate(epoch, 0.002, 100) for epoch in range(100)]
    assert rates[0] == 1e-5
    assert rates[1] == 0.002
    assert rates[51] == pytest.approx(0.001)
    assert rates[99] == pytest.approx(0.002 * (1 + math.cos(math.pi * 98 / 100)) / 2)
    assert all(a > b for a, b in itertools.pairwise(rates[1:]))


def test_the_record_shows_the_schedule(pocket: Backbone, few_images: Images) -> None:
    _, epochs = run(pocket, few_images)
    assert [epoch.word for epoch in epochs] == ["furry", None, "blue", None, None, None]
    assert [epoch.lr for epoch in epochs] == [learning_rate(e, 0.1, 6) for e in range(6)]


def test_the_prompt_holds_placeholders_until_a_word_arrives(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step the slots hold exactly the words that have entered by then."""
    seen: list[tuple[str, ...]] = []
    rows: list[torch.Tensor] = []
    loss = CoOp.loss

    def spy(self: CoOp, *batch: torch.Tensor) -> torch.Tensor:
        seen.append(self.words)
        rows.append(self.prompts.rows[self.prompts.slot_rows].clone())
        return loss(self, *batch)

    monkeypatch.setattr(CoOp, "loss", spy)
    run(pocket, few_images)
    steps = 3  # 12 images in batches of 4
    assert seen == [("furry",)] * 2 * steps + [("furry", "blue")] * 4 * steps
    furry, blue, zero = (pocket.embed(pocket.tokenize(w))[0] for w in ("furry", "blue", "0"))
    assert torch.equal(rows[0], torch.stack([furry, zero]))
    assert torch.equal(rows[-1], torch.stack([furry, blue]))


def test_another_seed_ends_elsewhere_and_only_the_prompt_changes(
    pocket: Backbone, few_images: Images
) -> None:
    before = {name: value.clone() for name, value in pocket.model.state_dict().items()}
    (first, _), (other, _) = (run(pocket, few_images, seed) for seed in (5, 6))
    assert not torch.equal(first.soft, other.soft)
    for name, value in pocket.model.state_dict().items():
        assert torch.equal(before[name], value), name


def test_one_step_is_sgd_with_decay_by_hand(pocket: Backbone, few_images: Images) -> None:
    """Epoch 0 has the warm-up rate; without momentum yet, a step is -lr * (g + 5e-4 w)."""
    learner, (features, labels) = make_learner(pocket, "coop", seed=5), few_images
    start = learner.soft.detach().clone()
    (gradient,) = torch.autograd.grad(learner.loss(Batch(labels, features)), learner.soft)
    views = BankedViews(pocket, labels, 1, features[None])
    train(learner, views, 12, [], RECIPE.override(epochs=1, interval=1, batch=12))
    expected = start - 1e-5 * (gradient + 5e-4 * start)
    torch.testing.assert_close(learner.soft.detach(), expected, atol=1e-7, rtol=1e-4)


def test_batches_drop_a_short_last_one_unless_it_is_all() -> None:
    def sizes(count: int, size: int) -> list[int]:
        return [len(b) for b in batches(count, size, torch.Generator().manual_seed(0))]

    assert sizes(12, 4) == [4, 4, 4]
    assert sizes(13, 4) == [4, 4, 4]
    assert sizes(3, 4) == [3]
    together = torch.cat(list(batches(12, 4, torch.Generator().manual_seed(0))))
    assert sorted(together.tolist()) == list(range(12))
