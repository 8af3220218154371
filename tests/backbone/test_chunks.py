"""Prompts in parts: the same features and gradients, and less kept for the gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ipl.backbone import chunks
from ipl.backbone.chunks import _parts
from ipl.backbone.clip import Backbone
from ipl.learners.batch import Batch
from ipl.learners.registry import learner_class

NAMES = ["cat", "starry night", "pirate ship", "ox", "siamese cat", "lighthouse", "sea"]


def test_parts_are_groups_or_pieces_of_one() -> None:
    def found(*args: int) -> list[tuple[int, int, int]]:
        return [(part.start, part.stop, count) for part, count in _parts(*args)]

    assert found(7, 1, 3) == [(0, 3, 1), (3, 6, 1), (6, 7, 1)]
    assert found(12, 4, 7) == [(0, 6, 2), (6, 12, 2)]
    assert found(12, 4, 3) == [(0, 3, 1), (3, 6, 1), (6, 9, 1), (9, 12, 1)]
    assert found(10, 2, 3) == [(0, 3, 1), (3, 5, 1), (5, 8, 1), (8, 10, 1)]
    assert found(9, 3, 100) == [(0, 9, 3)]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("name", ["coop", "cocoop", "maple"])
def test_gradients_are_the_same_and_little_is_kept(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch, name: str, few: bool
) -> None:
    kind = learner_class(name)
    learner = kind.from_recipe(pocket, NAMES, 1, kind.recipe(1))
    generator = torch.Generator().manual_seed(0)
    images = 8
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
    monkeypatch.setattr(chunks, "ACTIVATIONS", one if few else (prompts - 1) * one)
    again, found, little = step()
    torch.testing.assert_close(again, loss)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    if name != "maple":  # whose image tower keeps as much as before
        assert little < much / 2


def _bytes_of_one(pocket: Backbone, learner: object) -> int:
    text = pocket.clip.config.text_config
    tokens = learner.prompts.embeddings.shape[1] - learner.prompts.shared  # type: ignore[attr-defined]
    kept = 8 * text.hidden_size + text.intermediate_size
    return tokens * kept * len(pocket.text_layers) * 4


def test_nothing_is_run_twice_where_nothing_is_learnt(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **how: object) -> None:
        raise AssertionError("checkpointed")

    monkeypatch.setattr(chunks, "checkpoint", refuse)
    monkeypatch.setattr(chunks, "ACTIVATIONS", 1)
    kind = learner_class("coop")
    learner = kind.from_recipe(pocket, NAMES, 1, kind.recipe(1))
    with torch.no_grad():
        assert learner.text_features().shape == (7, pocket.feature_dim)
    with pytest.raises(AssertionError, match="checkpointed"):
        learner.text_features()
