"""PromptSRC: the average of its prompts over epochs, with Gaussian weights."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ipl.backbone.clip import Backbone
from ipl.learners.batch import Batch
from ipl.learners.coop import CoOp
from ipl.learners.learner import Learner
from ipl.learners.promptsrc import PromptSRC
from ipl.learners.recipe import Recipe
from ipl.training import loop
from ipl.training.loop import Average, train
from tests.helpers.promptsrc import NAMES, WORDS, make


class Still:
    """The same few images in every epoch; keeps a copy of the vectors as an epoch begins."""

    def __init__(self, learner: Learner, batch: Batch) -> None:
        self.learner, self.seen = learner, batch
        self.begins: dict[int, dict[str, Tensor]] = {}

    def batch(self, epoch: int, indices: Tensor) -> Batch:
        self.begins.setdefault(epoch, copied(self.learner))
        picked = (self.seen.labels, self.seen.features, self.seen.pixels)
        return Batch(*(None if part is None else part[indices] for part in picked))


def copied(learner: Learner) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in learner.named_parameters()}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives PromptSRC a loss that costs no tower: the average is not about the loss."""

    def loss(self: PromptSRC, batch: Batch) -> Tensor:
        assert batch.features is not None
        return sum((p.square() * 5 - p * batch.features.sum()).sum() for p in self.parameters())

    monkeypatch.setattr(PromptSRC, "loss", loss)


def run(
    backbone: Backbone, batch: Batch, recipe: Recipe, words: int = 0
) -> tuple[PromptSRC, list[dict[str, Tensor]]]:
    """Returns the learner after training and its vectors at the end of each epoch.

    The last epoch's are those of a second training, without an average.
    """
    layout = PromptSRC.layout_for(words, 4)
    learner, twin = (PromptSRC(backbone, layout, NAMES, depth=2) for _ in range(2))
    source = Still(learner, batch)
    train(learner, source, 4, WORDS[:words], recipe)
    train(twin, Still(twin, batch), 4, WORDS[:words], replace(recipe, average_mean=None))
    ends = [source.begins[epoch] for epoch in range(1, recipe.epochs)]
    return learner, [*ends, copied(twin)]


@pytest.mark.parametrize(
    ("protocol", "mean", "std"), [("base-to-novel", 15, 1), ("cross-dataset", 6, 10)]
)
@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.usefixtures("quick")
def test_the_average_by_hand(
    pocket: Backbone, batch: Batch, protocol: str, mean: int, std: int, words: int
) -> None:
    recipe = PromptSRC.recipe(words, protocol).override(lr=0.05)
    before = {name: value.clone() for name, value in pocket.clip.state_dict().items()}
    learner, ends = run(pocket, batch, recipe, words)
    assert len(ends) == 20
    density = [math.exp(-((e - mean) ** 2) / (2 * std**2)) for e in range(1, 21)]
    weights = [value / sum(density) for value in density]
    for name, value in learner.named_parameters():
        together = torch.stack([end[name] for end in ends]).double()
        expected = torch.einsum("e,e...->...", torch.tensor(weights).double(), together)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-6, rtol=1e-5)
        assert (value - ends[-1][name]).abs().max() > 1e-4  # not the last epoch
        assert (value - ends[14][name]).abs().max() > 1e-5  # nor epoch 15 alone
    assert learner.words == tuple(WORDS[:words])
    for name, value in pocket.clip.state_dict().items():  # prompts only
        assert torch.equal(value, before[name]), name


@pytest.mark.usefixtures("quick")
def test_without_a_mean_the_last_epoch_is_kept(pocket: Backbone, batch: Batch) -> None:
    recipe = Recipe(epochs=3, interval=1, batch=4, lr=0.05, m=4)
    learner, ends = run(pocket, batch, recipe)
    for name, value in learner.named_parameters():
        assert torch.equal(value, ends[-1][name])


@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.usefixtures("quick")
def test_few_epochs_far_from_the_mean(pocket: Backbone, batch: Batch, epochs: int) -> None:
    recipe = PromptSRC.recipe(0).override(epochs=epochs, lr=0.05)
    learner, ends = run(pocket, batch, recipe)
    for name, value in learner.named_parameters():
        assert value.isfinite().all()
        # N(3; 15, 1) is e^12.5 times N(2; 15, 1): the last epoch but for a few millionths
        torch.testing.assert_close(value.detach(), ends[-1][name], atol=1e-5, rtol=0)


@pytest.mark.parametrize("epochs", [1, 2, 3, 20, 200])
@pytest.mark.parametrize(("mean", "std"), [(15.0, 1.0), (6.0, 10.0), (1000.0, 0.5), (0.0, 0.01)])
def test_weights_are_normalised_whatever_the_epochs(
    pocket: Backbone, epochs: int, mean: float, std: float
) -> None:
    recipe = Recipe(epochs, 1, 4, 0.1, 4, average_mean=mean, average_std=std)
    weights = Average(make(pocket, depth=1), recipe).weights
    assert len(weights) == epochs
    assert math.fsum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    for e in range(1, epochs):
        quotient = math.exp(
            max(-700, min(700, ((e - mean) ** 2 - (e + 1 - mean) ** 2) / 2 / std**2))
        )
        if min(weights[e - 1 : e + 1]) > 1e-300:
            assert weights[e] / weights[e - 1] == pytest.approx(quotient, rel=1e-6)


def test_the_average_is_taken_in_fp32(pocket: Backbone) -> None:
    """Vectors that live in half precision are summed in full."""
    learner = make(pocket, depth=1).bfloat16()
    recipe = Recipe(2, 1, 4, 0.1, 4, average_mean=1.5, average_std=1.0)
    average = Average(learner, recipe)
    values = [learner.soft.detach().clone(), 1.01 * learner.soft.detach().clone()]
    for epoch, value in enumerate(values):
        with torch.no_grad():
            learner.soft.copy_(value)
        average.add(epoch)
    assert average.sums["soft"].dtype == torch.float32
    expected = (values[0].float() + values[1].float()) / 2
    torch.testing.assert_close(average.sums["soft"], expected, atol=0, rtol=1e-6)


def test_only_a_recipe_that_asks_pays(pocket: Backbone) -> None:
    average = loop.Average(make(pocket, depth=1), CoOp.recipe(0))
    average.add(0)
    assert not average.sums
