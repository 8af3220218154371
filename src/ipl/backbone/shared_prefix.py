"""Text features of prompts with the same beginning, which is run once.

Prompts of one task differ only from the class name on. In a causal tower the rows before it depend
on themselves alone, so one copy serves all classes; each class adds its own few rows, which attend
to the shared keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
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


class OwnRows(NamedTuple):
    """Where the prompts' own rows stand if the padding after each EOS is left out."""

    place: Tensor  # (rows,): that of each among the (prompts * own) rows with padding
    starts: Tensor  # (prompts + 1,): where each prompt's rows begin, and where the last end; int32

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> OwnRows:
        """Returns the rows of prompts with these numbers of own rows."""
        own = max(counts)
        places = [prompt * own + row for prompt, count in enumerate(counts) for row in range(count)]
        starts = list(accumulate(counts, initial=0))
        return cls(
            torch.tensor(places, device=device),
            torch.tensor(starts, dtype=torch.int32, device=device),
        )

    def for_groups(self, groups: int, own: int) -> OwnRows:
        """Returns the rows of several groups of these prompts; with padding, each has `own`."""
        if groups == 1:
            return self
        group = torch.arange(groups, device=self.place.device)[:, None]
        prompts, rows = len(self.starts) - 1, len(self.place)
        starts = self.starts[:-1] + group.int() * rows
        end = torch.full((1,), groups * rows, dtype=torch.int32, device=self.place.device)
        return OwnRows(
            (self.place + group * (prompts * own)).flatten(), torch.cat([starts.flatten(), end])
        )


# Queries, keys and values (rows, 3 * width), their order, and `OwnRows.starts` without padding.
Attention = Callable[[Tensor, SharedShape, Tensor | None], Tensor]


def run_shared(
    tower: TextTower,
    hidden: Tensor,
    eos: Tensor,
    shared: int,
    enter: Callable[[int, Tensor], Tensor] | None = None,
    groups: int = 1,
    own_rows: OwnRows | None = None,
) -> Tensor:
    """Returns the row of each prompt's EOS (prompts, width) after all layers.

    `hidden` is (prompts, tokens, width), positions added; its first `shared` rows are the same in
    every prompt, or in every prompt of each of `groups` equal parts. `enter` may rewrite these rows
    (groups, shared, width), and no others, before each layer. Given `own_rows`, those of one group,
    a GPU does not compute padding.
    """
    prompts, tokens, width = hidden.shape
    shape = SharedShape(groups, shared, prompts // groups, tokens - shared, tower.heads)
    attend = _attention(hidden.device, width // tower.heads)
    common, own = hidden[:: shape.each, :shared].flatten(0, 1), hidden[:, shared:].flatten(0, 1)
    last = torch.arange(prompts, device=hidden.device) * shape.own + eos - shared
    starts = None
    if attend is not attend_with_torch and own_rows is not None:
        places, starts = own_rows.for_groups(groups, shape.own)
        own, last = own.index_select(0, places), starts[1:] - 1
    rows, sizes = torch.cat([common, own]), [len(common), len(own)]
    for number in range(len(tower.layers)):
        if enter is not None:
            before, rest = rows.split(sizes)
            before = before.view(groups, shared, width)
            after = enter(number, before)
            if after is not before:
                rows = torch.cat([after.reshape(-1, width), rest])
        mixed = attend(tower.project_qkv(rows, number), shape, starts)
        if starts is not None and number + 1 == len(tower.layers):  # nobody reads the other rows
            rows, mixed = (part.index_select(0, sizes[0] + last) for part in (rows, mixed))
            return tower.finish_layer(rows, mixed, number)
        rows = tower.finish_layer(rows, mixed, number)
    return rows.index_select(0, sizes[0] + last)


def attend_with_torch(qkv: Tensor, shape: SharedShape, starts: Tensor | None = None) -> Tensor:
    """Returns the attention (rows, width) of queries, keys and values (rows, 3 * width).

    A shared row attends to the shared rows up to itself; a prompt's own row to all of these, and
    to its own up to itself. Rows must have their padding.
    """
    assert starts is None
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
