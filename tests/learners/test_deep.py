"""Deep prompts: which rows change before which layer, against the layers run one by one by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.learners.deep_prompts import replace_rows


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- replace_rows alone --------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "rows"), [(2, [2, 3]), (0, [0, 1]), (-2, [5, 6]), (5, [5, 6])])
def test_exactly_these_rows_before_exactly_these_layers(start: int, rows: list[int]) -> None:
    deep, hidden = random_rows(3, 2, 4), random_rows(5, 7, 4, seed=1)
    enter, original = replace_rows(start, deep), hidden.clone()
    for layer in range(6):
        after = enter(layer, hidden)
        expected = hidden.clone()
        if layer in (1, 2, 3):
            expected[:, rows] = deep[layer - 1]
        assert torch.equal(after, expected)
        assert torch.equal(hidden, original)  # what came in is not written on


def test_no_deep_vectors_change_nothing() -> None:
    hidden = random_rows(2, 3, 4)
    for empty in (torch.zeros(0, 2, 4), torch.zeros(0, 0, 4)):
        assert all(replace_rows(-1, empty)(layer, hidden) is hidden for layer in range(4))


def test_gradients_go_into_the_vectors_and_past_them_but_not_through() -> None:
    deep, hidden = random_rows(2, 2, 4).requires_grad_(), random_rows(3, 5, 4).requires_grad_()
    replace_rows(1, deep)(2, hidden).sum().backward()
    assert torch.equal(deep.grad[1], torch.full((2, 4), 3.0))  # once for each prompt
    assert not deep.grad[0].any()
    assert torch.equal(hidden.grad.sum((0, 2)), torch.tensor([12.0, 0.0, 0.0, 12.0, 12.0]))


def test_vectors_take_the_towers_precision() -> None:
    after = replace_rows(0, random_rows(1, 1, 4))(1, random_rows(2, 3, 4).bfloat16())
    assert after.dtype == torch.bfloat16
    assert torch.equal(after[1, 0], random_rows(1, 1, 4)[0, 0].bfloat16())


# -- a shared beginning, with deep prompts and with groups ---------------------------------------


@pytest.mark.parametrize("deep_layers", [0, 2, 5])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_shared_run_is_the_full_run(pocket: Backbone, groups: int, deep_layers: int) -> None:
    """In features and in gradients, though own rows and beginnings differ from group to group."""
    width, shared, each = pocket.text_width, 4, 2
    starts = (0.3 * random_rows(groups, shared, width)).requires_grad_()
    own = (0.3 * random_rows(groups * each, 5, width, seed=1)).requires_grad_()
    deep = (0.3 * random_rows(deep_layers, 2, width, seed=2)).requires_grad_()
    eos = torch.tensor([4, 8, 7, 5, 6, 8])[: groups * each]
    weights = random_rows(groups * each, pocket.feature_dim, seed=3)

    def run(shared_rows: int, parts: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        begin = starts.repeat_interleave(each, 0)
        rows = torch.cat([begin, own], dim=1)
        features = pocket.encode_text(rows, eos, replace_rows(1, deep), shared_rows, parts)
        wanted = (starts, own, deep)
        return features, torch.autograd.grad((features * weights).sum(), wanted, allow_unused=True)

    full, full_gradients = run(0, 1)
    once, once_gradients = run(shared, groups)
    torch.testing.assert_close(once, full, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(once_gradients, full_gradients, strict=True):
        if ours is not None or theirs is not None:  # None: no deep vectors
            torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-3)


def test_enter_is_shown_the_beginning_of_each_group(pocket: Backbone) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []

    def enter(layer: int, hidden: Tensor) -> Tensor:
        seen.append((layer, tuple(hidden.shape)))
        return hidden

    rows = random_rows(2, 3, pocket.text_width).repeat_interleave(3, 0)
    rows = torch.cat([rows, random_rows(6, 2, pocket.text_width, seed=1)], dim=1)
    pocket.encode_text(rows, torch.full((6,), 4), enter, shared=3, groups=2)
    assert seen == [(layer, (2, 3, pocket.text_width)) for layer in range(6)]
