"""Text features of prompts that begin alike, with the common beginning run once.

Prompts of one task differ only from the class name on. A causal tower computes the rows before it
from themselves alone, so one copy serves all classes; each class adds its own few rows, which
attend to the common keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ipl.backbone.text_tower import TextTower


class Shape(NamedTuple):
    """How rows lie in one matrix: the common ones of every group, then each prompt's own."""

    groups: int
    shared: int
    each: int  # prompts in a group
    own: int
    heads: int


Attention = Callable[[Tensor, Shape], Tensor]


def run_shared(
    tower: TextTower,
    hidden: Tensor,
    shared: int,
    enter: Callable[[int, Tensor], Tensor] | None = None,
    groups: int = 1,
) -> Tensor:
    """Returns the rows from `shared` on (prompts, own, width) after all layers.

    `hidden` is (prompts, tokens, width), positions added; its first `shared` rows are the same in
    every prompt, or in every prompt of each of `groups` equal parts. `enter` may rewrite these rows
    (groups, shared, width) before any layer, no others.
    """
    prompts, tokens, width = hidden.shape
    shape = Shape(groups, shared, prompts // groups, tokens - shared, tower.heads)
    rows = torch.cat(
        [hidden[:: shape.each, :shared].reshape(-1, width), hidden[:, shared:].reshape(-1, width)]
    )
    sizes = [groups * shared, prompts * shape.own]
    attend = _attention(hidden.device, width // tower.heads)
    for number in range(len(tower.layers)):
        if enter is not None:
            common, rest = rows.split(sizes)
            common = common.view(groups, shared, width)
            entered = enter(number, common)
            if entered is not common:
                rows = torch.cat([entered.reshape(-1, width), rest])
        rows = tower.behind(rows, attend(tower.mixing(rows, number), shape), number)
    return rows[sizes[0] :].view(prompts, shape.own, width)


def attend_plainly(qkv: Tensor, shape: Shape) -> Tensor:
    """Returns what rows take (rows, width) by queries, keys and values (rows, 3 * width).

    A common row sees the common rows up to itself; an own row all of these, and its own up to
    itself.
    """
    groups, shared, each, own, heads = shape
    # Parts are split off, not indexed: their gradients are then joined in one pass, not added up.
    common, rest = qkv.unflatten(-1, (3, heads, -1)).split([groups * shared, groups * each * own])
    common_query, common_both = common.unflatten(0, (groups, 1, shared)).split([1, 2], dim=3)
    own_query, own_both = rest.unflatten(0, (groups, each, own)).split([1, 2], dim=3)
    both = torch.cat([common_both.expand(-1, each, -1, -1, -1, -1), own_both], dim=2)
    hides = torch.full((own, shared + own), -torch.inf, dtype=qkv.dtype, device=qkv.device)
    first = _take(common_query, common_both, None)
    return torch.cat([first, _take(own_query, both, hides.triu(shared + 1))])


def _take(query: Tensor, both: Tensor, hides: Tensor | None) -> Tensor:
    """Returns rows (rows, width); `both` is keys and values; both (groups, prompts, rows, ...)."""
    key, value = (part.flatten(0, 1).transpose(1, 2) for part in both.unbind(3))
    query = query.squeeze(3).flatten(0, 1).transpose(1, 2)  # (prompts, heads, rows, head width)
    taken = scaled_dot_product_attention(
        query, key, value, hides, is_causal=hides is None, scale=1.0
    )
    return taken.transpose(1, 2).flatten(2).flatten(0, 1)


def _attention(device: torch.device, head_width: int) -> Attention:
    """Returns the kernels where they run, else the plain one."""
    if device.type == "cuda":
        try:
            from ipl.backbone import search_kernels as kernels
            from ipl.backbone import training_kernels
        except ImportError:  # no Triton in this build of torch
            return attend_plainly
        if kernels.fits(head_width):
            return training_kernels.attend
    return attend_plainly
