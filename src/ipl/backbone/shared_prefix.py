"""Text features of prompts with the same beginning, which is run once.

Prompts of one task differ only from the class name on. In a causal tower the rows before it depend
on themselves alone, so one copy serves all classes; each class adds its own few rows, which attend
to the shared keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ipl.backbone.text_tower import TextTower


class SharedShape(NamedTuple):
    """The order of rows in one matrix: the shared ones of every group, then each prompt's own."""

    groups: int
    shared: int
    each: int  # prompts in a group
    own: int
    heads: int


Attention = Callable[[Tensor, SharedShape], Tensor]


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
    (groups, shared, width), and no others, before each layer.
    """
    prompts, tokens, width = hidden.shape
    shape = SharedShape(groups, shared, prompts // groups, tokens - shared, tower.heads)
    rows = torch.cat(
        [hidden[:: shape.each, :shared].reshape(-1, width), hidden[:, shared:].reshape(-1, width)]
    )
    sizes = [groups * shared, prompts * shape.own]
    attend = _attention(hidden.device, width // tower.heads)
    for index in range(len(tower.layers)):
        if enter is not None:
            before, rest = rows.split(sizes)
            before = before.view(groups, shared, width)
            after = enter(index, before)
            if after is not before:
                rows = torch.cat([after.reshape(-1, width), rest])
        rows = tower.finish_layer(rows, attend(tower.project_qkv(rows, index), shape), index)
    return rows[sizes[0] :].view(prompts, shape.own, width)


def attend_with_torch(qkv: Tensor, shape: SharedShape) -> Tensor:
    """Returns the attention (rows, width) of queries, keys and values (rows, 3 * width).

    A shared row attends to the shared rows up to itself; a prompt's own row to all of these, and
    to its own up to itself.
    """
    groups, shared, each, own, heads = shape
    # Split instead of indexed: the gradients are then joined in one pass instead of added up.
    common, rest = qkv.unflatten(-1, (3, heads, -1)).split([groups * shared, groups * each * own])
    common_query, common_kv = common.unflatten(0, (groups, 1, shared)).split([1, 2], dim=3)
    own_query, own_kv = rest.unflatten(0, (groups, each, own)).split([1, 2], dim=3)
    kv = torch.cat([common_kv.expand(-1, each, -1, -1, -1, -1), own_kv], dim=2)
    mask = torch.full((own, shared + own), -torch.inf, dtype=qkv.dtype, device=qkv.device)
    common_mixed = _attend(common_query, common_kv, None)
    return torch.cat([common_mixed, _attend(own_query, kv, mask.triu(shared + 1))])


def _attend(query: Tensor, kv: Tensor, mask: Tensor | None) -> Tensor:
    """Returns rows (rows, width); queries, and keys and values, are (groups, prompts, rows, ...).

    Without a mask, attention is causal.
    """
    key, value = (part.flatten(0, 1).transpose(1, 2) for part in kv.unbind(3))
    query = query.squeeze(3).flatten(0, 1).transpose(1, 2)  # (prompts, heads, rows, head width)
    mixed = scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None, scale=1.0)
    return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def _attention(device: torch.device, head_width: int) -> Attention:
    """Returns the Triton kernels if they can run, otherwise torch's attention."""
    if device.type == "cuda":
        try:
            from ipl.backbone import search_kernels, training_kernels
        except ImportError:  # not every build of torch has Triton
            return attend_with_torch
        if search_kernels.fits(head_width):
            return training_kernels.attend
    return attend_with_torch
