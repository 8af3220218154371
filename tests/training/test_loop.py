"""Algorithm 1 and its promises."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.training.loop import batches, train
from ipl.training.schedule import learning_rate
from ipl.training.views import BankedViews

NAMES = ["cat", "starry night", "pirate ship"]
RECIPE = Hyperparameters(epochs=6, interval=2, batch=4, lr=0.1, m=2)
Images = tuple[torch.Tensor, torch.Tensor]


def fresh(pocket: Backbone, words: int = 2) -> Learner:
    return CoOp(pocket, CoOp.layout_for(words, 2), NAMES, seed=5)


def run(
    pocket: Backbone, images: Images, seed: int = 5, hyperparameters: Hyperparameters = RECIPE
) -> Learner:
    learner = fresh(pocket)
    views = BankedViews(pocket, images[1], 1, images[0][None], seed=seed)
    learner.record = train(learner, views, len(images[1]), ["furry", "blue"], hyperparameters, seed)
    return learner


def test_the_record_shows_the_schedule(pocket: Backbone, few_images: Images) -> None:
    record = run(pocket, few_images).record
    assert [epoch.word for epoch in record.epochs] == ["furry", None, "blue", None, None, None]
    assert [epoch.lr for epoch in record.epochs] == [learning_rate(e, 0.1, 6) for e in range(6)]


def test_the_prompt_holds_placeholders_until_a_word_arrives(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step the slots hold exactly the words that have entered by then."""
    seen: list[tuple[str, ...]] = []
    rows: list[torch.Tensor] = []
    loss = CoOp.loss

    def spy(self: CoOp, *batch: torch.Tensor) -> torch.Tensor:
        seen.append(self.words)
        rows.append(self.prompts.embeddings[0, self.prompts.slot_rows[0]].clone())
        return loss(self, *batch)

    monkeypatch.setattr(CoOp, "loss", spy)
    run(pocket, few_images)
    steps = 3  # 12 images in batches of 4
    assert seen == [("furry",)] * 2 * steps + [("furry", "blue")] * 4 * steps
    furry, blue, zero = (pocket.embed(pocket.tokenize(w))[0] for w in ("furry", "blue", "0"))
    assert torch.equal(rows[0], torch.stack([furry, zero]))
    assert torch.equal(rows[-1], torch.stack([furry, blue]))


def test_the_same_seed_gives_the_same_bits(pocket: Backbone, few_images: Images) -> None:
    first, again, other = (run(pocket, few_images, seed) for seed in (5, 5, 6))
    assert torch.equal(first.soft, again.soft)
    assert not torch.equal(first.soft, other.soft)


def test_only_the_prompt_changes(pocket: Backbone, few_images: Images) -> None:
    before = {name: value.clone() for name, value in pocket.model.state_dict().items()}
    learner = run(pocket, few_images)
    after = pocket.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not torch.equal(learner.soft, fresh(pocket).soft)


def test_training_lowers_the_loss(pocket: Backbone, few_images: Images) -> None:
    hyperparameters = Hyperparameters(epochs=40, interval=1, batch=12, lr=0.02, m=2)
    epochs = run(pocket, few_images, hyperparameters=hyperparameters).record.epochs
    assert epochs[-1].loss < 0.7 * epochs[0].loss


def test_one_step_is_sgd_with_decay_by_hand(pocket: Backbone, few_images: Images) -> None:
    """Epoch 0 has the warm-up rate; without momentum yet, a step is -lr * (g + 5e-4 w)."""
    learner, hyperparameters = (
        fresh(pocket, 0),
        Hyperparameters(epochs=1, interval=1, batch=12, lr=0.1, m=2),
    )
    start = learner.soft.detach().clone()
    (gradient,) = torch.autograd.grad(
        learner.loss(Batch(few_images[1], few_images[0])), learner.soft
    )
    train(
        learner, BankedViews(pocket, few_images[1], 1, few_images[0][None]), 12, [], hyperparameters
    )
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
