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
    count, queries = query.shape[:2]
    rows_each = key.shape[1]
    query, key, value = (_split(rows, heads) for rows in (query, key, value))
    prefix_key, prefix_value = (
        rows.unflatten(-1, (heads, -1)).transpose(1, 2) for rows in (prefix.keys, prefix.values)
    )
    longest = prefix.keys.shape[1]
    padding = torch.arange(longest, device=key.device) >= prefix.lengths[:, None]
    shared = query.flatten(2, 3) @ prefix_key.transpose(-1, -2)
    shared = shared.masked_fill_(padding[:, None, None, :], -torch.inf)
    # Products of a few rows: elementwise is faster than thousands of tiny matrix products.
    private = (query[..., :, None, :] * key[..., None, :, :]).sum(-1)
    future = torch.ones(queries, rows_each, dtype=torch.bool, device=key.device)
    private = private.masked_fill_(future.triu(1 + rows_each - queries), -torch.inf)
    weights = torch.cat([shared, private.flatten(2, 3)], dim=-1).softmax(dim=-1)
    prefix_weights, own_weights = weights.split([shared.shape[-1], rows_each], dim=-1)
    mixed = (prefix_weights @ prefix_value).unflatten(2, (count, queries))
    own_weights = own_weights.unflatten(2, (count, queries))
    for row in range(rows_each):
        mixed = mixed.addcmul_(own_weights[..., row, None], value[..., row, None, :])
    joined: Tensor = mixed.permute(2, 3, 0, 1, 4).flatten(3)
    return joined


def _split(rows: Tensor, heads: int) -> Tensor:
    """Returns (count, rows, prompts, width) as (prompts, heads, count, rows, head width)."""
    split: Tensor = rows.unflatten(-1, (heads, -1))
    return split.permute(2, 3, 0, 1, 4)


def find_kernels(device: torch.device, dtype: torch.dtype, head_width: int) -> ModuleType | None:
    """Returns the Triton kernels; None if they cannot run or do not suit these numbers."""
    # Triton multiplies fp32 in reduced precision, but fp32 results have to be exact.
    return _kernels(head_width) if device.type == "cuda" and dtype.itemsize == 2 else None


@cache
def _kernels(head_width: int) -> ModuleType | None:
    try:
        from ipl.backbone import search_kernels
    except ImportError:  # not every build of torch has Triton
        return None
    return search_kernels if search_kernels.fits(head_width) else None
