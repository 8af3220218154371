"""Attention of a few rows of their own to a prefix that many prompts share, without gradients."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor


class Prefix(NamedTuple):
    """Keys and values (prompts, rows, width) of the rows that each prompt's variants share."""

    keys: Tensor
    values: Tensor
    lengths: Tensor  # (prompts,), the rows after it are padding


def attend_to_prefix(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prefix: Prefix,
    heads: int,
    kernels: ModuleType | None = None,
) -> Tensor:
    """Returns the attention of the query rows to the shared prefix and to their own rows.

    Queries are (variants, asking rows, prompts, width), the last rows of keys and values (variants,
    own rows, prompts, width). A row attends to the prefix of its prompt and to the own rows of its
    variant up to itself. `kernels` are those of `find_kernels`; without them torch does the same.
    """
    if kernels is not None:
        out: Tensor = kernels.attend(query, key, value, *prefix, heads)
        return out
    return _attend(query, key, value, prefix, heads)


def _attend(query: Tensor, key: Tensor, value: Tensor, prefix: Prefix, heads: int) -> Tensor:
    """Returns the same attention without kernels of its own.

    Rows are never rearranged: (rows, prompts * heads, head width) is a view of what the products
    of the tower return, and each product below reads it with strides.
    """
    count, asking, prompts, width = query.shape
    own, longest = key.shape[1], prefix.keys.shape[1]
    batch, head = prompts * heads, width // heads
    query, key, value = (rows.reshape(count, -1, batch, head) for rows in (query, key, value))
    prefix_key, prefix_value = (
        rows.unflatten(-1, (heads, head)).transpose(1, 2).reshape(batch, longest, head)
        for rows in (prefix.keys, prefix.values)
    )
    padding = torch.arange(longest, device=key.device) >= prefix.lengths[:, None]
    # Scores are (batch, keys, rows): a softmax over few keys is fastest with the rows last.
    shared = prefix_key @ query.flatten(0, 1).permute(1, 2, 0)
    by_prompt = shared.view(prompts, heads, longest, -1)
    by_prompt.masked_fill_(padding[:, None, :, None], -torch.inf)
    private = shared.new_full((batch, own, count, asking), -torch.inf)
    seen = [(row, to) for row in range(asking) for to in range(own - asking + row + 1)]
    for row, to in seen:  # elementwise is faster than thousands of products of two rows
        private[:, to, :, row] = (query[:, row] * key[:, to]).sum(-1).T
    weights = torch.cat([shared, private.flatten(2)], dim=1).softmax(dim=1)
    mixed: Tensor = (weights[:, :longest].transpose(1, 2) @ prefix_value).transpose(0, 1)
    mixed = mixed.contiguous().view(count, asking, batch, head)
    own_weights = weights[:, longest:].unflatten(2, (count, asking))
    for row, to in seen:
        mixed[:, row].addcmul_(own_weights[:, to, :, row].T[..., None], value[:, to])
    return mixed.view(count, asking, prompts, width)


def find_kernels(device: torch.device, dtype: torch.dtype, head_width: int) -> ModuleType | None:
    """Returns the Triton kernels; None if they cannot run or do not suit these numbers."""
    in_half = device.type == "cuda" and dtype.itemsize == 2  # fp32 is no faster with them
    return _kernels(head_width) if in_half else None


@cache
def _kernels(head_width: int) -> ModuleType | None:
    try:
        from ipl.backbone import search_kernels
    except ImportError:  # not every build of torch has Triton
        return None
    return search_kernels if search_kernels.fits(head_width) else None
