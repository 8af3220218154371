"""Deep prompts: what enters which layer of both towers, against layers run by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from tests.helpers.learners import NAMES, make_learner
from tests.helpers.library_towers import library_text
from tests.helpers.tiny_clip import tiny_clip


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


BOTH = pytest.mark.parametrize("kind", ["maple", "promptsrc"])


def text_by_hand(learner: Any) -> Tensor:
    """Returns normalised features: every prompt alone and in full, rows written in a plain loop."""
    backbone, features, m = learner.backbone, [], learner.layout.groups[-1].size
    for name in NAMES:
        pieces = [backbone.embed([backbone.sos])]
        groups = iter(learner.soft.split(m))
        for word in learner.words:
            pieces += [next(groups), backbone.embed(backbone.tokenize(word))]
        first = sum(map(len, pieces))  # of the class-side group
        rest = f"of a {name}." if learner.name == "maple" and not learner.words else f"{name}."
        end = [*backbone.tokenize(rest), backbone.eos]
        prompt = torch.cat([*pieces, next(groups), backbone.embed(end)])

        def enter(number: int, hidden: Tensor, first: int = first) -> Tensor:
            if not 1 <= number < min(learner.depth, backbone.text_layers):
                return hidden
            new = learner.deep[number - 1][None]
            return torch.cat([hidden[:, :first], new, hidden[:, first + m :]], dim=1)

        features.append(library_text(backbone, prompt, enter))
    return normalize(torch.stack(features), dim=-1)


def image_prompts(learner: Any) -> list[Tensor]:
    """Returns the image prompts of each prompted layer."""
    if learner.name == "promptsrc":
        return list(learner.image)
    m = learner.layout.groups[-1].size
    sources = [learner.soft[-m:], *learner.deep]
    return [
        rows @ layer.weight.T + layer.bias
        for layer, rows in zip(learner.couple, sources, strict=False)
    ]


def image_by_hand(learner: Any, pixels: Tensor) -> Tensor:
    vision, clip = learner.backbone.model.vision_model, learner.backbone.model
    prompts = image_prompts(learner)
    rows = vision.embeddings(pixels)  # patches and CLS, positions added
    patches = rows.shape[1]
    hidden = torch.cat([rows, torch.stack([prompts[0]] * len(pixels))], dim=1)
    hidden = vision.pre_layrnorm(hidden)
    for number, layer in enumerate(vision.encoder.layers):
        if 1 <= number < len(prompts):
            new = torch.stack([prompts[number]] * len(pixels))
            hidden = torch.cat([hidden[:, :patches], new], dim=1)
        hidden = layer(hidden, None)
    return normalize(clip.visual_projection(vision.post_layernorm(hidden[:, 0])), dim=-1)


@BOTH
@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("depth", [1, 3, 9])
def test_both_towers_by_hand(pocket: Backbone, kind: str, words: int, depth: int) -> None:
    learner = make_learner(pocket, kind, words, depth=depth)
    pixels = random_rows(2, 3, 64, 64)
    pairs = [
        (learner.text_features(), text_by_hand(learner)),
        (learner.image_features(pixels), image_by_hand(learner, pixels)),
    ]
    parameters = list(learner.parameters())
    for ours, by_hand in pairs:
        torch.testing.assert_close(ours, by_hand, atol=1e-5, rtol=0)
        weights = random_rows(*ours.shape, seed=4)
        gradients = [
            torch.autograd.grad((side * weights).sum(), parameters, materialize_grads=True)
            for side in (ours, by_hand)
        ]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("text", "image"), [(2, 4), (4, 2), (1, 3), (3, 1)])
def test_depth_is_capped_by_each_tower(pocket: Backbone, text: int, image: int) -> None:
    backbone = tiny_clip(pocket, layers=text, image_layers=image)
    pixels = random_rows(2, 3, 64, 64)
    maple, promptsrc = (make_learner(backbone, kind) for kind in ("maple", "promptsrc"))
    assert maple.deep.shape == (text - 1, 2, 48)
    assert len(maple.couple) == min(text, image)  # a layer of both towers each
    assert promptsrc.deep.shape == (text - 1, 4, 48)
    assert promptsrc.image.shape == (image, 4, 32)
    for learner in (maple, promptsrc):
        torch.testing.assert_close(
            learner.text_features(), text_by_hand(learner), atol=1e-5, rtol=0
        )
        torch.testing.assert_close(
            learner.image_features(pixels), image_by_hand(learner, pixels), atol=1e-5, rtol=0
        )


@BOTH
@pytest.mark.parametrize("words", [0, 2])
def test_a_tower_that_looks_both_ways(siglip: Backbone, kind: str, words: int) -> None:
    """SigLIP has no SOS, so all rows stand one earlier; every vector matters."""
    learner = make_learner(siglip, kind, words, depth=2)
    assert learner.group_row == words * (learner.group_size + 1)
    size = siglip.preprocessing.crop
    images = learner.image_features(random_rows(2, 3, size, size))
    siglip.logits(images, learner.text_features()).sin().sum().backward()
    assert all((p.grad.abs().sum(-1) > 0).all() for p in learner.parameters())
