"""CoCoOp: a net on the image feature shifts the class-side group, for every image anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.learners.cocoop import CoCoOp
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch
from tests.helpers.learners import NAMES, make_learner


def logits_by_hand(learner: CoCoOp, image: Tensor) -> Tensor:
    """Returns one image's logits (classes,): CoOp's with vectors made for this image alone.

    Two matrices and a ReLU make the shift (width,) of an image feature (dim,).
    """
    state = learner.state_dict()
    hidden = state["meta.0.weight"] @ (image / image.norm()) + state["meta.0.bias"]
    assert (hidden < 0).any()  # so that the ReLU matters
    assert (hidden > 0).any()
    shift = state["meta.2.weight"] @ hidden.clamp(min=0) + state["meta.2.bias"]
    coop = CoOp(learner.backbone, learner.layout, NAMES)
    for word in learner.words:
        coop.place_word(word)
    with torch.no_grad():
        coop.soft.copy_(learner.soft)
        coop.soft[-4:] += shift
        return coop.logits(image[None])[0]


def test_the_net_is_16_times_narrower(pocket: Backbone) -> None:
    learner = make_learner(pocket, "cocoop", 2)
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {
        "soft": (12, 192),
        "meta.0.weight": (512 // 16, 512),
        "meta.0.bias": (512 // 16,),
        "meta.2.weight": (192, 512 // 16),
        "meta.2.bias": (192,),
    }
    for layer in (learner.meta[0], learner.meta[2]):  # as torch's own start
        bound = layer.in_features**-0.5
        assert layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


@pytest.mark.parametrize("words", [0, 2])
def test_logits_by_hand_one_image_at_a_time(
    pocket: Backbone, batch: Batch, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, images = make_learner(pocket, "cocoop", words), batch.features
    expected = torch.stack([logits_by_hand(learner, image) for image in images])
    with torch.no_grad():
        together = learner.logits(images)
        torch.testing.assert_close(together, expected, atol=2e-3, rtol=0)
        for prompts in (1, 7):  # at a time
            monkeypatch.setattr("ipl.backbone.backbone.PROMPTS_AT_ONCE", prompts)
            torch.testing.assert_close(learner.logits(images), together, atol=2e-3, rtol=0)
    # The net sees normalised features.
    lengths = torch.tensor([[0.1], [1.0], [3.0], [40.0]])
    torch.testing.assert_close(learner.logits(images * lengths), together, atol=2e-3, rtol=0)


def test_the_loss_and_its_gradients_are_the_mean_over_images(
    pocket: Backbone, batch: Batch
) -> None:
    learner, (labels, images, _) = make_learner(pocket, "cocoop", 2), batch
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
