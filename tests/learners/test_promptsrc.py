"""PromptSRC: its prompts, its three regularisers, and the average over epochs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Batch, Learner
from ipl.learners.promptsrc import IMAGENET_TEMPLATES, PromptSRC
from ipl.support.progress import Reporter
from ipl.training.loop import train
from ipl.training.views import BankedViews
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


class Ends(Reporter):
    """Keeps a copy of the vectors at the end of each epoch."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(quiet=True)
        self.learner, self.vectors = learner, list[dict[str, Tensor]]()

    def record_event(self, event: object) -> None:
        named = self.learner.named_parameters()
        self.vectors.append({name: value.detach().clone() for name, value in named})


@pytest.mark.parametrize(
    ("protocol", "epochs", "mean", "std"),
    [
        ("base-to-novel", 20, 15, 1),
        ("cross-dataset", 20, 6, 10),
        ("base-to-novel", 3, 15, 1),  # far from the mean, where the weights are e^-72
    ],
)
def test_the_average_by_hand(
    pocket: Backbone,
    batch: Batch,
    protocol: str,
    epochs: int,
    mean: int,
    std: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loss(self: PromptSRC, batch: Batch) -> Tensor:  # that costs no tower
        return sum((p.square() * 5 - p * batch.features.sum()).sum() for p in self.parameters())

    monkeypatch.setattr(PromptSRC, "loss", loss)
    learner = make_learner(pocket, "promptsrc", depth=2)
    views, ends = BankedViews(pocket, batch.labels, 1, batch.features[None]), Ends(learner)
    numbers = PromptSRC.hyperparameters(0, protocol).override(lr=0.05, epochs=epochs)
    train(learner, views, 4, (), numbers, reporter=ends)
    assert len(ends.vectors) == epochs
    density = [math.exp(-((e - mean) ** 2) / (2 * std**2)) for e in range(1, epochs + 1)]
    weights = torch.tensor([value / sum(density) for value in density]).double()
    for name, value in learner.named_parameters():
        together = torch.stack([end[name] for end in ends.vectors]).double()
        expected = torch.einsum("e,e...->...", weights, together)
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-6, rtol=1e-5)
        if epochs == 20:
            assert (value - together[-1]).abs().max() > 1e-4  # not the last epoch
            assert (value - together[14]).abs().max() > 1e-5  # nor epoch 15 alone


def test_the_templates_are_as_published_slips_included() -> None:
    assert len(IMAGENET_TEMPLATES) == len(set(IMAGENET_TEMPLATES)) == 60
    assert {"a origami {}.", "a embroidered {}."} <= set(IMAGENET_TEMPLATES)
    assert not any(template.startswith("an ") for template in IMAGENET_TEMPLATES)
