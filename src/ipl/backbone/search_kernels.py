"""Two Triton kernels for the word search on an NVIDIA GPU, half of whose time is pointwise work.

Triton comes with torch on the systems that it supports; elsewhere torch does the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 4  # of a norm, per program
MANY, FEW = 64, 16  # candidates of the attention, per program


@triton.jit(do_not_specialize=["total"])
def _norm(hidden, offset, out, total, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (columns < width)[None, :]
    live = inside & (rows < total)[:, None]
    at = rows[:, None] * width + columns[None, :]
    shift = tl.load(offset + columns, columns < width, other=0.0).to(tl.float32)
    x = tl.load(hidden + at, live, other=0.0).to(tl.float32) + shift[None, :]
    mean = tl.sum(tl.where(inside, x, 0.0), 1) / width
    x = tl.where(inside, x - mean[:, None], 0.0)
    deviation = tl.rsqrt(tl.sum(x * x, 1) / width + eps)
    tl.store(out + at, (x * deviation[:, None]).to(out.dtype.element_ty), live)


# Lengths and counts are not specialised on: every step would compile a kernel of its own.
@triton.jit(do_not_specialize=["count", "prefix"])
def _attend(
    queries, keys, values, prefix_keys, prefix_values, lengths, out,
    count, prefix, width, asking_candidate, asking_row, asking_prompt, own_candidate, own_row,
    own_prompt, out_candidate, out_row, out_prompt,
    BLOCK: tl.constexpr, HEAD: tl.constexpr, OWN: tl.constexpr, ASKING: tl.constexpr,
    CANDIDATES: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * HEAD + tl.arange(0, HEAD)
    candidate = tl.program_id(1).to(tl.int64) * CANDIDATES + tl.arange(0, CANDIDATES)
    prompt = tl.program_id(2).to(tl.int64)
    live = (candidate < count)[:, None]
    place = tl.arange(0, BLOCK)
    at = (prompt * prefix + place[:, None]) * width + column[None, :]
    dtype: tl.constexpr = queries.dtype.element_ty  # the prefix is in fp32
    shared_keys = tl.load(prefix_keys + at, (place < prefix)[:, None], other=0.0).to(dtype)
    shared_values = tl.load(prefix_values + at, (place < prefix)[:, None], other=0.0).to(dtype)
    padding = (place >= tl.load(lengths + prompt))[None, :]
    for asked in tl.static_range(ASKING):
        at = (candidate * asking_candidate + asked * asking_row + prompt * asking_prompt)[:, None]
        query = tl.load(queries + at + column[None, :], live, other=0.0)
        top = tl.full((CANDIDATES,), float("-inf"), tl.float32)
        total = tl.zeros((CANDIDATES,), tl.float32)
        mixed = tl.zeros((CANDIDATES, HEAD), tl.float32)
        for row in tl.static_range(OWN - ASKING + asked + 1):  # own rows up to the one that asks
            at = (candidate * own_candidate + row * own_row + prompt * own_prompt)[:, None]
            key = tl.load(keys + at + column[None, :], live, other=0.0).to(tl.float32)
            value = tl.load(values + at + column[None, :], live, other=0.0).to(tl.float32)
            score_own = tl.sum(query.to(tl.float32) * key, 1)
            higher = tl.maximum(top, score_own)
            fade = tl.exp(top - higher)
            weight_own = tl.exp(score_own - higher)
            total = total * fade + weight_own
            mixed = mixed * fade[:, None] + weight_own[:, None] * value
            top = higher
        score = tl.dot(query, tl.trans(shared_keys))
        score = tl.where(padding, float("-inf"), score)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(weight, 1)
        mixed *= fade[:, None]
        mixed = tl.dot(weight.to(dtype), shared_values, mixed)
        mixed *= (1 / total)[:, None]
        at = (candidate * out_candidate + asked * out_row + prompt * out_prompt)[:, None]
        tl.store(out + at + column[None, :], mixed.to(out.dtype.element_ty), live)


def norm(hidden: Tensor, offset: Tensor, eps: float) -> Tensor:
    """Returns the layer norm, without scale and shift, of hidden + offset."""
    out = torch.empty_like(hidden)
    width = hidden.shape[-1]
    total = hidden.numel() // width
    block = triton.next_power_of_2(width)
    _norm[(triton.cdiv(total, ROWS),)](
        hidden, offset, out, total, width, eps, ROWS=ROWS, BLOCK=block
    )
    return out


def attend(
    query: Tensor,  # (candidates, asking rows, prompts, width)
    key: Tensor,  # (candidates, own rows, prompts, width)
    value: Tensor,
    prefix_key: Tensor,  # (prompts, prefix, width)
    prefix_value: Tensor,
    lengths: Tensor,  # (prompts,)
    heads: int,
) -> Tensor:
    """Returns the attention of the asking rows to the prefix and to their own rows."""
    count, asking, prompts, width = query.shape
    out = torch.empty_like(query)
    prefix = prefix_key.shape[1]
    block = MANY if count >= MANY else FEW
    strides = [rows.stride()[:3] for rows in (query, key, out)]
    _attend[(heads, triton.cdiv(count, block), prompts)](
        query, key, value, prefix_key, prefix_value, lengths, out, count, prefix, width,
        *(stride for three in strides for stride in three),
        BLOCK=max(16, triton.next_power_of_2(prefix)), HEAD=width // heads, OWN=key.shape[1],
        ASKING=asking, CANDIDATES=block,
    )  # fmt: skip
    return out


def fits(head_width: int) -> bool:
    """Returns whether heads of this width suit the attention kernel."""
    return head_width >= 16 and head_width & (head_width - 1) == 0
