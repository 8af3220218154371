"""MaPLe: image prompts made from the text's. What enters where: test_deep_prompts."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Batch
from ipl.learners.registry import learner_class
from tests.helpers.learners import make_learner


@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_what_is_trained(pocket: Backbone, words: int, depth: int) -> None:
    learner = make_learner(pocket, "maple", words, depth=depth)
    expected = {"soft": (2 * (words + 1), 192), "deep": (depth - 1, 2, 192)}
    for layer in range(depth):  # one matrix for each prompted layer
        expected |= {f"couple.{layer}.weight": (256, 192), f"couple.{layer}.bias": (256,)}
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == expected


@pytest.mark.parametrize("words", [0, 2])
def test_the_loss_is_cross_entropy_of_both_prompted_towers(
    pocket: Backbone, batch: Batch, words: int
) -> None:
    learner, labels = make_learner(pocket, "maple", words), batch.labels
    images, texts = learner.image_features(batch.pixels), learner.text_features()
    for features in (images, texts):
        torch.testing.assert_close(features.norm(dim=-1), torch.ones(len(features)))
    expected = cross_entropy(pocket.logit_scale * images @ texts.T, labels)
    loss = learner.loss(Batch(labels, pixels=batch.pixels))
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=0)
    frozen = cross_entropy(pocket.logits(batch.features, texts), labels)
    assert (loss - frozen).abs() > 1e-3


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
    interleaved = learner_class(name).layout_for(2, m)
    group = f"[{' '.join('V' * m)}]"
    assert interleaved.readable() == f"{group} *_* {group} *_* {group} {{cls}}."


def test_the_maps_of_deeper_layers_start_as_copies_of_one_draw(pocket: Backbone) -> None:
    learner = make_learner(pocket, "maple", depth=4)
    first, *deeper = (layer.weight for layer in learner.couple)
    assert len(deeper) == 3
    assert all(torch.equal(weight, deeper[0]) for weight in deeper)
    assert not torch.equal(first, deeper[0])
    with torch.no_grad():
        deeper[0].add_(1.0)
    assert not torch.equal(deeper[0], deeper[1])  # copies, each trained by itself
