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
WIDE, NARROW = 128, 64  # columns of a product, per program


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
def attend_kernel(
    queries, keys, values, prefix_keys, prefix_values, lengths, out, centre, unit,
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
    dtype: tl.constexpr = queries.dtype.element_ty  # that of the prefix may be higher
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
        score = tl.dot(query, tl.trans(shared_keys), input_precision="tf32x3")  # only fp32's
        score = tl.where(padding, float("-inf"), score)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(weight, 1)
        mixed *= fade[:, None]
        mixed = tl.dot(weight.to(dtype), shared_values, mixed, input_precision="tf32x3")
        mixed *= (1 / total)[:, None]
        at = (candidate * out_candidate + asked * out_row + prompt * out_prompt)[:, None]
        if out.dtype.element_ty == tl.int8:  # rounded in units, around a centre
            block = asked * tl.num_programs(2) + prompt
            middle = tl.load(centre + block * width + column).to(tl.float32)
            mixed = (mixed - middle[None, :]) * (1 / tl.load(unit + block))
            mixed = round_to_int8(tl.minimum(tl.maximum(mixed, -127.0), 127.0))
        tl.store(out + at + column[None, :], mixed.to(out.dtype.element_ty), live)


@triton.jit
def round_to_int8(x):
    """Returns a number from -127 to 127, rounded: adding 1.5 * 2**23 moves it to the low bits."""
    return (x + 12582912.0).to(tl.int32, bitcast=True).to(tl.int8)


@triton.jit(do_not_specialize=["total"])
def _multiply(
    out, rows, weight, bias, total, width,
    DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    across = width // COLUMNS
    row = (tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    live = (row < total)[:, None]
    k = tl.arange(0, STEP)
    left = rows + row[:, None] * DEPTH + k[None, :]
    right = weight + column[None, :] * DEPTH + k[:, None]
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, DEPTH, STEP):
        values = tl.load(left, live, other=0.0)
        sums = tl.dot(values, tl.load(right), sums, input_precision="tf32x3")
        left += STEP
        right += STEP
    at = row[:, None] * width + column[None, :]
    if bias is None:
        sums += tl.load(out + at, live, other=0.0)
    else:
        sums += tl.load(bias + column)[None, :]
    tl.store(out + at, sums, live)


def multiply(out: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Adds rows (..., in) @ weight (in, out) to what `out` holds, or puts it there with a bias.

    All are in fp32, and the result is as exact; see `exact_products.py`.
    """
    depth, width = weight.shape
    total = rows.numel() // depth
    columns = WIDE if width % WIDE == 0 else NARROW
    _multiply[(triton.cdiv(total, WIDE) * (width // columns),)](
        out, rows.contiguous(), weight.T.contiguous(), bias, total, width,
        DEPTH=depth, ROWS=WIDE, COLUMNS=columns, STEP=32, num_warps=8, num_stages=3,
    )  # fmt: skip


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
    attend_kernel[(heads, triton.cdiv(count, block), prompts)](
        query, key, value, prefix_key, prefix_value, lengths, out, None, None, count, prefix, width,
        *(stride for three in strides for stride in three),
        BLOCK=max(16, triton.next_power_of_2(prefix)), HEAD=width // heads, OWN=key.shape[1],
        ASKING=asking, CANDIDATES=block,
    )  # fmt: skip
    return out


def fits(head_width: int) -> bool:
    """Returns whether heads of this width suit the attention kernel."""
    return head_width >= 16 and head_width & (head_width - 1) == 0


def sizes_fit(*sizes: int) -> bool:
    """Returns whether matrices of these sizes suit the kernel of products."""
    return all(size % NARROW == 0 for size in sizes)
