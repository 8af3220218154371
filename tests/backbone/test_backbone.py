"""What all families share: parts of prompts, hashes, fingerprints, tokens and logits."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ipl.backbone import backbone as backbone_module
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.families import POCKET_FOLDER
from ipl.learners.learner import Batch
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ["cat", "starry night", "pirate ship", "ox", "siamese cat", "lighthouse", "sea"]


@pytest.mark.parametrize("of", ["pocket", "siglip"])
def test_gradients_are_the_same_and_little_is_kept(
    of: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of prompts, or whole ones, are run in parts, each a second time."""
    backbone: Backbone = request.getfixturevalue(of)
    kind = learner_class("cocoop")
    learner = kind.from_hyperparameters(backbone, NAMES, 1, kind.hyperparameters(1))
    images = 4
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(images, backbone.feature_dim, generator=generator)
    batch = Batch(torch.arange(images) % 7, torch.nn.functional.normalize(features, dim=-1))

    def step() -> tuple[Tensor, list[Tensor], int]:
        learner.zero_grad()
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = learner.loss(batch)
        loss.backward()
        found = [p.grad.clone() for p in learner.parameters() if p.grad is not None]
        return loss.detach(), found, sum(kept.values())

    loss, expected, much = step()
    monkeypatch.setattr(backbone_module, "ACTIVATION_BYTES", 1)
    again, found, little = step()
    torch.testing.assert_close(again, loss)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    assert little < much / 2


def test_a_candidate_is_one_ordinary_token_and_no_text_has_a_special_one(pocket: Backbone) -> None:
    words = ["furry", "blue"]
    assert pocket.tokenize_words(words) == [pocket.tokenize(word)[0] for word in words]
    for word in ("siamese cat", "<|endoftext|>"):
        with pytest.raises(ConfigError, match="exactly one ordinary token"):
            pocket.tokenize_words([word])
    with pytest.raises(DataError, match="endoftext"):
        pocket.tokenize("a <|endoftext|> cat")


def test_logits_are_scaled_cosines(pocket: Backbone) -> None:
    images, texts = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    expected = pocket.logit_scale * torch.tensor([[0.6, 0.8]])
    torch.testing.assert_close(pocket.logits(images, texts), expected)
    stored = load_file(POCKET_FOLDER / "model.safetensors")["logit_scale"]  # the logarithm
    assert pocket.logit_scale == pytest.approx(stored.double().exp().item())


def test_a_fingerprint_tells_apart_whatever_changes_a_feature(pocket: Backbone) -> None:
    def other(**changes: Any) -> Backbone:
        clip = copy.deepcopy(pocket.model)
        preprocessing = replace(pocket.preprocessing, **changes.pop("preprocessing", {}))
        for key, value in changes.pop("text_config", {}).items():
            setattr(clip.config.text_config, key, value)
        if changes.pop("weights", False):
            clip.text_projection.weight.data[0, 0] += 1e-3
        return ClipBackbone("pocket", clip, pocket.tokenizer, preprocessing, "cpu", **changes)

    assert other().fingerprint == pocket.fingerprint
    others = [
        other(weights=True),
        other(precision="bf16"),
        other(text_config={"hidden_act": "gelu"}),
        other(text_config={"num_attention_heads": 6}),
        other(preprocessing={"resize": 256}),
        other(preprocessing={"mean": (0.5, 0.5, 0.5)}),
        other(preprocessing={"resample": 2}),
    ]
    assert len({pocket.fingerprint, *(o.fingerprint for o in others)}) == 1 + len(others)
