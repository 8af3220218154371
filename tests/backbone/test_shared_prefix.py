"""Prompts without their padding against prompts with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ipl.backbone import shared_prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.folded_layers import FoldedLayers
from ipl.backbone.shared_prefix import OwnRows
from ipl.learners.registry import learner_class

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["cat", "a very old pirate ship in a storm", "starry night", "dog"]


def test_where_rows_are() -> None:
    own = OwnRows.of([2, 3, 1], torch.device("cpu"), torch.float32)
    assert own.place.tolist() == [0, 1, 3, 4, 5, 6]
    assert own.starts.tolist() == [0, 2, 5, 6]
    twice = own.for_groups(2, own=3)
    assert twice.place.tolist() == [0, 1, 3, 4, 5, 6, 9, 10, 12, 13, 14, 15]
    assert twice.starts.tolist() == [0, 2, 5, 6, 8, 11, 12]
    assert own.firsts.tolist() == [0, 0, 2, 2, 2, 5]
    assert twice.firsts.tolist() == [0, 0, 2, 2, 2, 5, 6, 6, 8, 8, 8, 11]


def test_tiles_are_whole_prompts_of_one_group() -> None:
    own = OwnRows.of([30, 30, 10, 70, 1, 63, 1], torch.device("cpu"), torch.float16)
    assert own.tiles.tolist() == [0, 60, 70, 140, 204, 205]
    assert own.most == 70
    twice = own.for_groups(2, own=70)
    assert twice.tiles.tolist() == [0, 60, 70, 140, 204, 205, 265, 275, 345, 409, 410]
    small = OwnRows.of([9, 7, 1, 16, 20], torch.device("cpu"), torch.float32)
    assert small.tiles.tolist() == [0, 16, 17, 33, 53]


@pytest.mark.parametrize(("prompts", "own"), [(1, 1), (7, 9), (14, 9), (64, 1), (65, 1), (3, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_prompts_of_the_same_length(prompts: int, own: int, dtype: torch.dtype) -> None:
    where = (torch.device("cpu"), dtype)
    found, expected = OwnRows.equal(prompts, own, *where), OwnRows.of([own] * prompts, *where)
    assert [torch.as_tensor(value).tolist() for value in found] == [
        torch.as_tensor(value).tolist() for value in expected
    ]


@pytest.mark.parametrize("name", ["coop", "cocoop", "maple"])
def test_features_and_gradients_do_not_depend_on_padding(
    name: str, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = learner_class(name)
    found, rows = [], []
    project = FoldedLayers.project_qkv

    def watched(self: FoldedLayers, stream: Tensor, *rest: Any) -> Tensor:
        rows.append(len(stream))
        return project(self, stream, *rest)

    monkeypatch.setattr(FoldedLayers, "project_qkv", watched)
    for most in (1.0, 0.25):
        monkeypatch.setattr(shared_prefix, "MOST_PADDING", most)
        learner = kind.from_hyperparameters(pocket, NAMES, 1, kind.hyperparameters(1), seed=3)
        images = torch.randn(2, pocket.feature_dim, generator=torch.Generator().manual_seed(0))
        logits = learner.logits(images)
        logits.sin().sum().backward()
        assert learner.soft.grad is not None
        found.append((logits.detach(), learner.soft.grad))
    assert min(rows) < max(rows)
    torch.testing.assert_close(found[1][0], found[0][0], atol=2e-4, rtol=0)
    torch.testing.assert_close(found[1][1], found[0][1], atol=2e-3, rtol=1e-3)
