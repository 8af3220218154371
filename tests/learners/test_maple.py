"""MaPLe: image prompts made from the text's, layer by layer. What enters where: test_deep."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Batch
from ipl.learners.maple import MaPLe
from ipl.learners.registry import learner_class
from ipl.prompts.layout import FixedText, Soft

NAMES = ["cat", "starry night", "pirate ship"]
WORDS = ["furry", "blue"]


def make(backbone: Backbone, words: int = 0, depth: int = 9, seed: int = 1) -> MaPLe:
    layout = MaPLe.layout_for(words, MaPLe.hyperparameters(words).m)
    learner = MaPLe(backbone, layout, NAMES, seed, depth=depth)
    for word in WORDS[:words]:
        learner.place_word(word)
    return learner


@pytest.fixture
def pixels() -> Tensor:
    return torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def test_layouts() -> None:
    plain = MaPLe.layout_for(0, 2)
    assert plain.readable() == "[V V] of a {cls}."
    assert plain.segments[1:3] == (Soft(2, init="a photo"), FixedText("of a"))
    assert MaPLe.layout_for(2, 2).readable() == "[V V] *_* [V V] *_* [V V] {cls}."
    assert [group.std for group in MaPLe.layout_for(2, 2).groups] == [0.01, 0.01, 0.02]


def test_a_photo_is_learnt_and_of_a_is_fixed(pocket: Backbone) -> None:
    learner = make(pocket)
    assert torch.equal(learner.soft, pocket.embed(pocket.tokenize("a photo")))
    assert learner.prompts.soft_rows.tolist() == [[1, 2]] * 3
    fixed = pocket.embed(pocket.tokenize("of a"))
    assert torch.equal(learner.prompts.embeddings[:, 3:5], fixed.expand(3, -1, -1))


def test_one_layer_deep_the_text_starts_as_zero_shot_clip(pocket: Backbone) -> None:
    texts = pocket.encode_texts([f"a photo of a {name}." for name in NAMES])
    ours = make(pocket, depth=1).text_features()
    torch.testing.assert_close(ours, normalize(texts, dim=-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_what_is_trained(pocket: Backbone, words: int, depth: int) -> None:
    learner = make(pocket, words, depth)
    expected = {"soft": (2 * (words + 1), 192), "deep": (depth - 1, 2, 192)}
    for layer in range(depth):  # one matrix for each prompted layer
        expected |= {f"couple.{layer}.weight": (256, 192), f"couple.{layer}.bias": (256,)}
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == expected
    assert all(p.dtype == torch.float32 for p in learner.parameters())


def test_deep_vectors_start_small_and_different(pocket: Backbone) -> None:
    deep = make(pocket).deep.detach()
    assert deep.std().item() == pytest.approx(0.02, rel=0.08)
    assert deep.mean().item() == pytest.approx(0, abs=0.002)
    assert len(deep.flatten(0, 1).unique(dim=0)) == 10
    assert not torch.equal(make(pocket, seed=2).deep, deep)


def test_the_image_side_reaches_the_text_vectors(pocket: Backbone, pixels: Tensor) -> None:
    """The class-side group and every deep set learn from images; words' groups do not."""
    learner = make(pocket, 2)
    weights = torch.randn(3, 512, generator=torch.Generator().manual_seed(1))
    (learner.image_features(pixels) * weights).sum().backward()
    assert (learner.soft.grad[-2:].abs().sum(1) > 0).all()
    assert not learner.soft.grad[:-2].any()
    assert (learner.deep.grad.abs().sum(-1) > 0).all()
    assert all((p.grad.abs().sum() > 0) for p in learner.couple.parameters())


def test_the_text_side_does_not_use_the_matrices(pocket: Backbone) -> None:
    learner = make(pocket, 2)
    weights = torch.randn(3, 512, generator=torch.Generator().manual_seed(1))
    (learner.text_features() * weights).sum().backward()
    assert (learner.soft.grad.abs().sum(1) > 0).all()  # words' groups learn here
    assert (learner.deep.grad.abs().sum(-1) > 0).all()
    assert all(p.grad is None for p in learner.couple.parameters())


@pytest.mark.parametrize("words", [0, 2])
def test_the_loss_is_cross_entropy_of_both_prompted_towers(
    pocket: Backbone, pixels: Tensor, words: int
) -> None:
    learner, labels = make(pocket, words), torch.tensor([2, 0, 1])
    images, texts = learner.image_features(pixels), learner.text_features()
    for features in (images, texts):
        torch.testing.assert_close(features.norm(dim=-1), torch.ones(3))
    expected = cross_entropy(pocket.logit_scale * images @ texts.T, labels)
    loss = learner.loss(Batch(labels, pixels=pixels))
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=0)
    frozen = cross_entropy(pocket.logits(pocket.encode_image(pixels), texts), labels)
    assert (loss - frozen).abs() > 1e-3


def test_the_gradient_is_the_sum_of_both_ways(pocket: Backbone, pixels: Tensor) -> None:
    learner, labels = make(pocket, 1), torch.tensor([2, 0, 1])
    vectors = [learner.soft, learner.deep]
    both = torch.autograd.grad(learner.loss(Batch(labels, pixels=pixels)), vectors)
    images, texts = learner.image_features(pixels), learner.text_features()
    ways = []
    for one, other in ((images, texts.detach()), (images.detach(), texts)):
        loss = cross_entropy(pocket.logits(one, other), labels)
        ways.append(torch.autograd.grad(loss, vectors))
    for ours, *parts in zip(both, *ways, strict=True):
        torch.testing.assert_close(ours, sum(parts), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["maple", "promptsrc"])
@pytest.mark.parametrize(
    ("m", "line", "start"),
    [
        (1, "[V] photo of a {cls}.", "a"),
        (2, "[V V] of a {cls}.", "a photo"),
        (3, "[V V V] a {cls}.", "a photo of"),
        (4, "[V V V V] {cls}.", "a photo of a"),
        (5, "[V V V V V] {cls}.", None),
    ],
)
def test_the_first_m_words_are_learnt_and_the_rest_stays_text(
    name: str, m: int, line: str, start: str | None
) -> None:
    layout = learner_class(name).layout_for(0, m)
    assert layout.readable() == line
    assert layout.groups[0].init == start


def test_the_maps_of_deeper_layers_start_as_copies_of_one_draw(pocket: Backbone) -> None:
    learner = MaPLe(pocket, MaPLe.layout_for(0, 2), ["cat", "dog"], depth=4)
    first, *deeper = (layer.weight for layer in learner.couple)
    assert len(deeper) == 3
    assert all(torch.equal(weight, deeper[0]) for weight in deeper)
    assert not torch.equal(first, deeper[0])
    with torch.no_grad():
        deeper[0].add_(1.0)
    assert not torch.equal(deeper[0], deeper[1])  # copies, each trained by itself
