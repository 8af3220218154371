"""What all families share: parts of prompts, hashes, fingerprints, tokens and logits."""

from __future__ import annotations

import copy
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ipl.backbone import backbone as backbone_module
from ipl.backbone.backbone import Backbone, hash_weights
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.shared_prefix import OwnRows, SharedPrompts
from ipl.learners.learner import Batch
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ["cat", "starry night", "pirate ship", "ox", "siamese cat", "lighthouse", "sea"]


def test_parts_are_groups_or_parts_of_one() -> None:
    def parts(prompts: int, groups: int, most: int) -> list[tuple[int, int, int]]:
        eos, beginnings = torch.arange(prompts), torch.arange(groups)[:, None, None]
        own_rows = OwnRows.equal(prompts // groups, 1, torch.device("cpu"), torch.float32)
        shared = SharedPrompts(beginnings, eos[:, None, None], eos, own_rows)
        found = []
        for part in shared.parts(most):
            first, last, count = int(part.eos[0]), int(part.eos[-1]) + 1, len(part.beginnings)
            each = prompts // groups
            assert part.endings.flatten().tolist() == part.eos.tolist() == [*range(first, last)]
            assert int(part.beginnings[0]) == first // each
            assert (part.own_rows is not None) == (last - first == count * each)
            found.append((first, last, count))
        return found

    assert parts(7, 1, 3) == [(0, 3, 1), (3, 6, 1), (6, 7, 1)]
    assert parts(12, 4, 7) == [(0, 6, 2), (6, 12, 2)]
    assert parts(12, 4, 3) == [(0, 3, 1), (3, 6, 1), (6, 9, 1), (9, 12, 1)]
    assert parts(10, 2, 3) == [(0, 3, 1), (3, 5, 1), (5, 8, 1), (8, 10, 1)]
    assert parts(9, 3, 100) == [(0, 9, 3)]


@pytest.mark.parametrize(
    ("name", "few"), [("coop", False), ("coop", True), ("cocoop", True), ("maple", True)]
)
def test_gradients_are_the_same_and_little_is_kept(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch, name: str, few: bool
) -> None:
    kind = learner_class(name)
    learner = kind.from_hyperparameters(pocket, NAMES, 1, kind.hyperparameters(1))
    generator = torch.Generator().manual_seed(0)
    images = 4
    features = torch.randn(images, pocket.feature_dim, generator=generator)
    edge = pocket.preprocessing.crop
    pixels = torch.randn(images, 3, edge, edge, generator=generator)
    batch = Batch(torch.arange(images) % 7, torch.nn.functional.normalize(features, dim=-1), pixels)

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
    prompts = len(NAMES) * (images if name == "cocoop" else 1)
    one = _bytes_of_one(pocket, learner)
    monkeypatch.setattr(backbone_module, "ACTIVATION_BYTES", one if few else (prompts - 1) * one)
    again, found, little = step()
    torch.testing.assert_close(again, loss)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    if name != "maple":  # whose image tower keeps as much as before
        assert little < much / 2


def _bytes_of_one(pocket: Backbone, learner: object) -> int:
    text = pocket.model.config.text_config
    tokens = learner.prompts.embeddings.shape[1] - learner.prompts.shared  # type: ignore[attr-defined]
    kept = 8 * text.hidden_size + text.intermediate_size
    return tokens * kept * len(pocket.text_layers) * 4


def test_nothing_is_run_twice_where_nothing_is_learnt(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **how: object) -> None:
        raise AssertionError("checkpointed")

    monkeypatch.setattr(backbone_module, "checkpoint", refuse)
    monkeypatch.setattr(backbone_module, "ACTIVATION_BYTES", 1)
    kind = learner_class("coop")
    learner = kind.from_hyperparameters(pocket, NAMES, 1, kind.hyperparameters(1))
    with torch.no_grad():
        assert learner.text_features().shape == (7, pocket.feature_dim)
    with pytest.raises(AssertionError, match="checkpointed"):
        learner.text_features()


def test_an_interface_has_no_instances(pocket: Backbone) -> None:
    with pytest.raises(TypeError, match="abstract"):
        Backbone("no family", pocket.model, pocket.tokenizer, pocket.preprocessing)  # type: ignore[abstract]


def test_a_candidate_is_one_ordinary_token(pocket: Backbone) -> None:
    words = ["furry", "blue"]
    assert pocket.tokenize_words(words) == [pocket.tokenize(word)[0] for word in words]
    for word in ("siamese cat", "<|endoftext|>"):
        with pytest.raises(ConfigError, match="exactly one ordinary token"):
            pocket.tokenize_words([word])


def test_logits_are_scaled_cosines(pocket: Backbone) -> None:
    images, texts = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    expected = pocket.logit_scale * torch.tensor([[0.6, 0.8]])
    torch.testing.assert_close(pocket.logits(images, texts), expected)
    with resources.as_file(resources.files("ipl.backbone") / "pocket") as folder:
        stored = load_file(folder / "model.safetensors")["logit_scale"]  # the logarithm
    assert pocket.logit_scale == pytest.approx(stored.double().exp().item())


def test_the_weight_hash_sees_one_changed_value(pocket: Backbone) -> None:
    other = load_backbone("pocket", "cpu")
    assert other.weights_sha256 == pocket.weights_sha256
    with torch.no_grad():
        other.model.text_projection.weight[0, 0] += 1e-3
    assert hash_weights(other.model) != pocket.weights_sha256


def test_nothing_in_the_backbone_trains(pocket: Backbone) -> None:
    assert not any(parameter.requires_grad for parameter in pocket.model.parameters())


def test_an_end_token_in_a_text_is_refused(pocket: Backbone) -> None:
    with pytest.raises(DataError, match="endoftext"):
        pocket.tokenize("a <|endoftext|> cat")


def test_a_fingerprint_tells_apart_whatever_changes_a_feature(pocket: Backbone) -> None:
    def other(**changes: Any) -> Backbone:
        clip = copy.deepcopy(pocket.model)
        preprocessing = replace(pocket.preprocessing, **changes.pop("preprocessing", {}))
        for key, value in changes.pop("text_config", {}).items():
            setattr(clip.config.text_config, key, value)
        if changes.pop("weights", False):
            clip.text_projection.weight.data[0, 0] += 1
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
