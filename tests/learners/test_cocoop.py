"""CoCoOp: a net on the image feature shifts the class-side group, for every image anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.shared_prefix import SharedPrompts
from ipl.learners import cocoop
from ipl.learners.cocoop import CoCoOp
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch

NAMES = ["cat", "starry night", "pirate ship"]
WORDS = ["furry", "blue"]
Images = tuple[torch.Tensor, torch.Tensor]


def make(backbone: Backbone, words: int = 0, seed: int = 1) -> CoCoOp:
    learner = CoCoOp(
        backbone, CoCoOp.layout_for(words, CoCoOp.hyperparameters(words).m), NAMES, seed
    )
    for word in WORDS[:words]:
        learner.place_word(word)
    return learner


def shift_by_hand(learner: CoCoOp, image: Tensor) -> Tensor:
    """Returns the shift (width,) that two matrices and a ReLU make of an image feature (dim,)."""
    state = learner.state_dict()
    hidden = state["meta.0.weight"] @ (image / image.norm()) + state["meta.0.bias"]
    assert (hidden < 0).any()  # so that the ReLU matters
    assert (hidden > 0).any()
    return state["meta.2.weight"] @ hidden.clamp(min=0) + state["meta.2.bias"]


def logits_by_hand(learner: CoCoOp, image: Tensor) -> Tensor:
    """Returns one image's logits (classes,): CoOp's with vectors made for this image alone."""
    coop = CoOp(learner.backbone, learner.layout, NAMES)
    for word in learner.words:
        coop.place_word(word)
    with torch.no_grad():
        coop.soft.copy_(learner.soft)
        coop.soft[-4:] += shift_by_hand(learner, image)
        return coop.logits(image[None])[0]


def test_layouts() -> None:
    assert CoCoOp.layout_for(0, 4).readable() == "[V V V V] {cls}."
    assert CoCoOp.layout_for(0, 4).groups[0].init == "a photo of a"
    assert CoCoOp.layout_for(2, 4).readable() == "[V V V V] *_* [V V V V] *_* [V V V V] {cls}."
    assert [group.std for group in CoCoOp.layout_for(2, 4).groups] == [0.01, 0.01, 0.02]


def test_the_net_is_16_times_narrower(pocket: Backbone) -> None:
    learner = make(pocket, 2)
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {
        "soft": (12, 192),
        "meta.0.weight": (512 // 16, 512),
        "meta.0.bias": (512 // 16,),
        "meta.2.weight": (192, 512 // 16),
        "meta.2.bias": (192,),
    }
    assert isinstance(learner.meta[1], torch.nn.ReLU)
    for layer in (learner.meta[0], learner.meta[2]):  # as torch's own start
        bound = layer.in_features**-0.5
        assert layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


@pytest.mark.parametrize("words", [0, 2])
def test_logits_by_hand_one_image_at_a_time(
    pocket: Backbone, few_images: Images, words: int
) -> None:
    learner, images = make(pocket, words), few_images[0][:4]
    with torch.no_grad():
        together = learner.logits(images)
    expected = torch.stack([logits_by_hand(learner, image) for image in images])
    assert together.shape == (4, 3)
    torch.testing.assert_close(together, expected, atol=2e-3, rtol=0)
    alone = torch.cat([learner.logits(image[None]) for image in images])
    torch.testing.assert_close(together, alone, atol=2e-3, rtol=0)
    # the shift matters: without it the logits are others
    with torch.no_grad():
        learner.meta[2].weight.zero_()
        learner.meta[2].bias.zero_()
        unmoved = learner.logits(images)
        plain = pocket.logits(images, learner.text_features())
    torch.testing.assert_close(unmoved, plain, atol=2e-3, rtol=0)
    assert (together - unmoved).abs().max() > 0.1


@pytest.mark.parametrize("words", [0, 2])
def test_only_the_class_side_group_is_shifted(
    pocket: Backbone, few_images: Images, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, images = make(pocket, words), few_images[0][:2]
    seen: list[Tensor] = []
    encode = Backbone.encode_shared

    def spy(self: Backbone, prompts: SharedPrompts) -> Tensor:
        seen.append(prompts.whole().detach())
        return encode(self, prompts)

    monkeypatch.setattr(Backbone, "encode_shared", spy)
    learner.logits(images)
    (rows,) = seen  # images x classes in one go
    rows = rows.unflatten(0, (2, 3))
    plain = learner.prompts.assemble(learner.soft).detach()
    first = 1 + 5 * words
    for image, prompts in zip(images, rows, strict=True):
        expected = plain.clone()
        expected[:, first : first + 4] += shift_by_hand(learner, image)  # one shift for all four
        torch.testing.assert_close(prompts, expected, atol=1e-6, rtol=0)
        others = [row for row in range(plain.shape[1]) if not first <= row < first + 4]
        assert torch.equal(prompts[:, others], plain[:, others])


def test_the_net_sees_the_normalised_feature(pocket: Backbone, few_images: Images) -> None:
    learner, images = make(pocket), few_images[0][:3]
    lengths = torch.tensor([[0.1], [3.0], [40.0]])
    torch.testing.assert_close(
        learner.logits(images * lengths), learner.logits(images), atol=2e-3, rtol=0
    )


@pytest.mark.parametrize("most", [1, 7, 15])
def test_chunks_give_the_same(
    pocket: Backbone, few_images: Images, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is learnt; what gradients need has parts of its own (test_backbone.py)."""
    learner = make(pocket, 1)
    sizes: list[int] = []
    encode = Backbone.encode_shared

    def spy(self: Backbone, prompts: SharedPrompts) -> Tensor:
        sizes.append(len(prompts.endings))
        return encode(self, prompts)

    monkeypatch.setattr(Backbone, "encode_shared", spy)
    whole = learner.logits(few_images[0])
    assert sizes == [36]
    monkeypatch.setattr(cocoop, "PROMPTS_AT_ONCE", most)
    sizes.clear()
    with torch.no_grad():
        torch.testing.assert_close(learner.logits(few_images[0]), whole, atol=2e-3, rtol=0)
    assert sum(sizes) == 36
    assert max(sizes) <= max(most, 3)  # one image's prompts at the least


def test_the_loss_and_its_gradients_are_the_mean_over_images(
    pocket: Backbone, few_images: Images
) -> None:
    learner, (images, labels) = make(pocket, 2), (few_images[0][:4], few_images[1][:4])
    parameters = list(learner.parameters())
    loss = learner.loss(Batch(labels, images))
    expected = torch.stack([logits_by_hand(learner, image) for image in images])
    torch.testing.assert_close(loss, cross_entropy(expected, labels), atol=2e-3, rtol=0)
    together = torch.autograd.grad(loss, parameters)
    alone = [
        torch.autograd.grad(learner.loss(Batch(labels[i : i + 1], images[i : i + 1])), parameters)
        for i in range(4)
    ]
    for ours, theirs in zip(together, zip(*alone, strict=True), strict=True):
        assert ours.abs().sum() > 0  # the net and the vectors all learn
        torch.testing.assert_close(ours, torch.stack(theirs).mean(0), atol=1e-3, rtol=1e-3)


def test_the_nets_last_bias_moves_as_the_group_does(pocket: Backbone, few_images: Images) -> None:
    """One shift for the group: its gradient is the sum of its vectors', none of other groups'."""
    learner = make(pocket, 2)
    loss = learner.loss(Batch(few_images[1][:2], few_images[0][:2]))
    soft, bias = torch.autograd.grad(loss, [learner.soft, learner.meta[2].bias])
    torch.testing.assert_close(bias, soft[-4:].sum(0), atol=1e-4, rtol=1e-3)
