"""Prompts without their padding, as a GPU runs them, against prompts with it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ipl.backbone import shared_prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.shared_prefix import OwnRows, SharedShape, attend_with_torch
from ipl.learners.registry import learner_class

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["cat", "a very old pirate ship in a storm", "starry night", "dog"]


def attend_without_padding(qkv: Tensor, shape: SharedShape, starts: Tensor | None) -> Tensor:
    """Stands for the kernels of a GPU: puts the padding back, attends, and takes it out."""
    assert starts is not None
    first = shape.groups * shape.shared
    counts = starts.diff().tolist()
    places = first + torch.tensor(
        [prompt * shape.own + row for prompt, count in enumerate(counts) for row in range(count)]
    )
    kept = torch.cat([torch.arange(first), places])
    padded = qkv.new_zeros(first + len(counts) * shape.own, qkv.shape[1])
    return attend_with_torch(padded.index_copy(0, kept, qkv), shape)[kept]


def test_where_rows_are() -> None:
    own = OwnRows.of([2, 3, 1], torch.device("cpu"))
    assert own.place.tolist() == [0, 1, 3, 4, 5, 6]
    assert own.starts.tolist() == [0, 2, 5, 6]
    twice = own.for_groups(2, own=3)
    assert twice.place.tolist() == [0, 1, 3, 4, 5, 6, 9, 10, 12, 13, 14, 15]
    assert twice.starts.tolist() == [0, 2, 5, 6, 8, 11, 12]


@pytest.mark.parametrize("name", ["coop", "cocoop", "maple"])
def test_features_and_gradients_do_not_depend_on_padding(
    name: str, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = learner_class(name)
    found = []
    for attend in (attend_with_torch, attend_without_padding):
        monkeypatch.setattr(shared_prefix, "_attention", lambda *_, attend=attend: attend)
        learner = kind.from_hyperparameters(pocket, NAMES, 1, kind.hyperparameters(1), seed=3)
        images = torch.randn(2, pocket.feature_dim, generator=torch.Generator().manual_seed(0))
        logits = learner.logits(images)
        logits.sin().sum().backward()
        assert learner.soft.grad is not None
        found.append((logits.detach(), learner.soft.grad))
    torch.testing.assert_close(found[1][0], found[0][0], atol=2e-4, rtol=0)
    torch.testing.assert_close(found[1][1], found[0][1], atol=2e-3, rtol=1e-3)
