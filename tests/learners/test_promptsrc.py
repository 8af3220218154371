"""PromptSRC: its prompts, its three regularisers, and the average over epochs."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.learners.promptsrc import IMAGENET_TEMPLATES, PromptSRC
from ipl.training import views
from ipl.training.loop import train
from tests.helpers.learners import NAMES, make_learner


@pytest.mark.parametrize("words", [0, 2])
def test_what_is_trained(pocket: Backbone, words: int) -> None:
    learner = make_learner(pocket, "promptsrc", words)  # text: six layers, image: eight
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {
        "soft": (4 * (words + 1), 192),
        "deep": (5, 4, 192),
        "image": (8, 4, 256),
    }
    for vectors in (learner.deep, learner.image):
        assert vectors.std().item() == pytest.approx(0.02, rel=0.05)
        assert vectors.mean().item() == pytest.approx(0, abs=0.002)


def test_the_text_teacher_is_the_normalised_mean_of_unnormalised_features(
    pocket: Backbone,
) -> None:
    teacher = make_learner(pocket, "promptsrc").teacher
    normed_first = []
    for row, name in zip(teacher, NAMES, strict=True):
        features = torch.cat([pocket.encode_texts([t.format(name)]) for t in IMAGENET_TEMPLATES])
        mean = features.sum(0) / 60
        torch.testing.assert_close(row, mean / mean.norm(), atol=1e-5, rtol=0)
        normed_first.append(normalize(normalize(features, dim=-1).mean(0), dim=0))
    assert (teacher - torch.stack(normed_first)).abs().max() > 1e-4  # the order can be told
    assert not teacher.requires_grad


def terms_by_hand(learner: PromptSRC, batch: Batch) -> dict[str, float]:
    """Returns the four terms and some that would be wrong, in plain Python and double precision."""
    assert batch.pixels is not None
    backbone, labels = learner.backbone, batch.labels.tolist()
    with torch.no_grad():
        texts = learner.text_features().double()
        images = learner.image_features(batch.pixels).double()
        frozen_images = normalize(backbone.encode_image(batch.pixels).double(), dim=-1)
        rows = [[t.format(name) for t in IMAGENET_TEMPLATES] for name in NAMES]
        means = [backbone.encode_texts(row).double().mean(0) for row in rows]
    frozen_texts = normalize(torch.stack(means), dim=-1)

    def log_probabilities(u: Tensor, y: Tensor) -> list[list[float]]:
        table = (backbone.logit_scale * u @ y.T).tolist()
        return [[s - math.log(sum(map(math.exp, line))) for s in line] for line in table]

    ours = log_probabilities(images, texts)
    zero_shot = log_probabilities(frozen_images, frozen_texts)

    def divergence(p: list[list[float]], q: list[list[float]]) -> float:
        pairs = [(a, b) for x, y in zip(p, q, strict=True) for a, b in zip(x, y, strict=True)]
        return sum(math.exp(a) * (a - b) for a, b in pairs)

    entries = len(labels) * len(NAMES)
    return {
        "entropy": -sum(line[label] for line, label in zip(ours, labels, strict=True)) / len(ours),
        "text": (texts - frozen_texts).abs().sum().item() / texts.numel(),
        "image": (images - frozen_images).abs().sum().item() / images.numel(),
        "kl": divergence(zero_shot, ours) / entries,
        "reversed kl": divergence(ours, zero_shot) / entries,
    }


@pytest.mark.parametrize("words", [0, 2])
def test_the_loss_by_hand(pocket: Backbone, batch: Batch, words: int) -> None:
    learner = make_learner(pocket, "promptsrc", words)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # away from the frozen towers
        for vectors in learner.parameters():
            vectors += 0.5 * torch.randn(vectors.shape, generator=generator)
    term, tolerance = terms_by_hand(learner, batch), 5e-4
    assert min(term.values()) > 2 * tolerance  # none of them vanishes
    # So that the direction can be told.
    assert abs(term["kl"] - term["reversed kl"]) > 10 * tolerance
    expected = term["entropy"] + 25 * term["text"] + 10 * term["image"] + term["kl"]
    assert learner.loss(batch).item() == pytest.approx(expected, abs=tolerance)


class Still(views.View):
    """The same few images in every epoch; keeps a copy of the vectors as an epoch begins."""

    def __init__(self, learner: Learner, batch: Batch) -> None:
        self.learner, self.seen = learner, batch
        self.begins: dict[int, dict[str, Tensor]] = {}

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        picked = (self.seen.labels, self.seen.features, self.seen.pixels)
        for epoch, indices in order:
            self.begins.setdefault(epoch, copied(self.learner))
            yield Batch(*(None if part is None else part[indices] for part in picked))


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
    backbone: Backbone, batch: Batch, hyperparameters: Hyperparameters
) -> tuple[PromptSRC, list[dict[str, Tensor]]]:
    """Returns the learner after training and its vectors at the end of each epoch.

    The last epoch's are those of a second training, without an average.
    """
    learner, twin = (make_learner(backbone, "promptsrc", depth=2) for _ in range(2))
    source = Still(learner, batch)
    train(learner, source, 4, (), hyperparameters)
    train(twin, Still(twin, batch), 4, (), replace(hyperparameters, average_mean=None))
    ends = [source.begins[epoch] for epoch in range(1, hyperparameters.epochs)]
    return learner, [*ends, copied(twin)]


@pytest.mark.parametrize(
    ("protocol", "mean", "std"), [("base-to-novel", 15, 1), ("cross-dataset", 6, 10)]
)
@pytest.mark.usefixtures("quick")
def test_the_average_by_hand(
    pocket: Backbone, batch: Batch, protocol: str, mean: int, std: int
) -> None:
    hyperparameters = PromptSRC.hyperparameters(0, protocol).override(lr=0.05)
    learner, ends = run(pocket, batch, hyperparameters)
    assert len(ends) == 20
    density = [math.exp(-((e - mean) ** 2) / (2 * std**2)) for e in range(1, 21)]
    weights = [value / sum(density) for value in density]
    for name, value in learner.named_parameters():
        together = torch.stack([end[name] for end in ends]).double()
        expected = torch.einsum("e,e...->...", torch.tensor(weights).double(), together)
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-6, rtol=1e-5)
        assert (value - ends[-1][name]).abs().max() > 1e-4  # not the last epoch
        assert (value - ends[14][name]).abs().max() > 1e-5  # nor epoch 15 alone


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.usefixtures("quick")
def test_few_epochs_far_from_the_mean(pocket: Backbone, batch: Batch, epochs: int) -> None:
    hyperparameters = PromptSRC.hyperparameters(0).override(epochs=epochs, lr=0.05)
    learner, ends = run(pocket, batch, hyperparameters)
    for name, value in learner.named_parameters():
        # N(3; 15, 1) is e^12.5 times N(2; 15, 1): the last epoch but for a few millionths
        torch.testing.assert_close(value.detach(), ends[-1][name], atol=1e-5, rtol=0)


def test_the_templates_are_as_published_slips_included() -> None:
    assert len(IMAGENET_TEMPLATES) == len(set(IMAGENET_TEMPLATES)) == 60
    assert {"a origami {}.", "a embroidered {}."} <= set(IMAGENET_TEMPLATES)
    assert not any(template.startswith("an ") for template in IMAGENET_TEMPLATES)
