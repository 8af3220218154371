"""Attention of rows with endings on an NVIDIA GPU: a forward and a backward kernel.

There are many endings of a few rows each, so that a general attention spends its time on launches
and on copies of the shared keys. Here a Triton program takes a tile of rows, which are several
whole endings or the beginning of a group, in one head, straight from the matrix of queries, keys
and values.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LEAST = 16  # rows of a block, which the matrix units need
# By the bytes of a number: rows that a tile takes together, and the most that a kernel is made for.
# In fp32 there are no matrix units, and a kernel of 64 rows takes 20 s to compile.
TILE_ROWS, MOST_ROWS = {2: 64, 4: 16}, {2: 128, 4: 32}


def fits(qkv: Tensor, heads: int, endings: Any) -> bool:
    """Whether the kernels are made for these rows."""
    head = qkv.shape[-1] // 3 // heads
    power = head >= LEAST and head & (head - 1) == 0
    return power and max(endings.shared, endings.longest) <= MOST_ROWS[qkv.element_size()]


def attend(qkv: Tensor, heads: int, endings: Any, prefix: Any = None) -> Tensor:
    """The attention (groups, rows, width) of `ipl.backbone.ops.attend` with endings.

    With a prefix, which comes in the precision of the rows, there are no gradients.
    """
    tiles, most = endings.tiles(TILE_ROWS[qkv.element_size()])
    qkv = qkv.contiguous()
    if prefix is not None:
        return _run_forward(qkv, heads, endings.firsts, tiles, most, 0, prefix)[0]
    out: Tensor = _Attend.apply(qkv, heads, endings.firsts, tiles, most, endings.shared)
    return out


@triton.jit
def _load(qkv, first, count, width, columns, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    live = (place < count)[:, None]
    at = (first + place)[:, None].to(tl.int64) * (3 * width) + columns[None, :]
    query = tl.load(qkv + at, live, other=0.0)
    key = tl.load(qkv + at + width, live, other=0.0)
    value = tl.load(qkv + at + 2 * width, live, other=0.0)
    return query, key, value


@triton.jit
def _times(a, b):
    return tl.dot(a.to(b.dtype), b, input_precision="ieee")


@triton.jit
def _scores(
    query, key, common_key, first, count, before, BLOCK: tl.constexpr, COMMON: tl.constexpr
):
    """The scores of a tile's rows, `first` being where each row's ending begins in it."""
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    score = _times(query, tl.trans(key))
    seen = (column <= row) & (column >= first[:, None]) & (column < count)
    common_score = _times(query, tl.trans(common_key))
    common_seen = tl.arange(0, COMMON)[None, :] < before
    return (
        tl.where(seen, score, float("-inf")),
        tl.where(common_seen, common_score, float("-inf")),
    )


# Counts are not specialised on: other classes and words would compile a kernel of their own.
@triton.jit(do_not_specialize=["rows", "each", "shared", "common", "common_group", "common_row"])
def _forward(
    qkv, common_keys, common_values, lengths, out, lse, firsts, tiles,
    rows, each, shared, common, common_group, common_row, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    program, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    group, tile = (program // each).to(tl.int64), program % each
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    place = tl.arange(0, BLOCK)
    begin = tl.load(tiles + tile)
    start, count = group * rows + begin, tl.load(tiles + tile + 1) - begin
    first = tl.load(firsts + begin + place, place < count, other=begin) - begin
    before = tl.where(begin < shared, 0, common)  # the beginning sees only itself
    if PADDED:
        before = tl.load(lengths + group).to(tl.int32)
    query, key, value = _load(qkv, start, count, width, columns, BLOCK)
    common_place = tl.arange(0, COMMON)
    at = group * common_group + common_place[:, None] * common_row + columns[None, :]
    known = (common_place < before)[:, None]
    common_key = tl.load(common_keys + at, known, other=0.0)
    common_value = tl.load(common_values + at, known, other=0.0)
    score, common_score = _scores(query, key, common_key, first, count, before, BLOCK, COMMON)
    top = tl.maximum(tl.max(score, 1), tl.max(common_score, 1))
    weight, common_weight = tl.exp(score - top[:, None]), tl.exp(common_score - top[:, None])
    total = tl.sum(weight, 1) + tl.sum(common_weight, 1)
    mixed = _times(weight, value) + _times(common_weight, common_value)
    at = (start + place)[:, None].to(tl.int64) * width + columns[None, :]
    tl.store(out + at, (mixed / total[:, None]).to(out.dtype.element_ty), (place < count)[:, None])
    tl.store(lse + (start + place) * heads + head, top + tl.log(total), place < count)


@triton.jit(do_not_specialize=["rows", "each", "skipped", "shared"])
def _backward(
    qkv, out, lse, grad, grad_qkv, firsts, tiles, wanted, rows, each, skipped, shared, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr, BEGINNING: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a tile, and to `wanted` those of the beginning that it asks for.

    BEGINNING is the pass over the beginnings, where `wanted` holds the sum over all tiles.
    """
    program, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    group, tile = (program // each).to(tl.int64), program % each + skipped
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    place = tl.arange(0, BLOCK)
    begin = tl.load(tiles + tile)
    start, count = group * rows + begin, tl.load(tiles + tile + 1) - begin
    first = tl.load(firsts + begin + place, place < count, other=begin) - begin
    before = 0 if BEGINNING else shared
    query, key, value = _load(qkv, start, count, width, columns, BLOCK)
    _, common_key, common_value = _load(qkv, group * rows, before, width, columns, COMMON)
    score, common_score = _scores(query, key, common_key, first, count, before, BLOCK, COMMON)
    live = (place < count)[:, None]
    at = (start + place)[:, None].to(tl.int64) * width + columns[None, :]
    given = tl.load(grad + at, live, other=0.0)
    taken = tl.load(out + at, live, other=0.0)
    delta = tl.sum(given.to(tl.float32) * taken.to(tl.float32), 1)[:, None]
    norm = tl.load(lse + (start + place) * heads + head, place < count, other=0.0)[:, None]
    weight = tl.where(live, tl.exp(score - norm), 0.0)
    slope = weight * (_times(given, tl.trans(value)) - delta)
    grad_query = _times(slope, key)
    grad_key = _times(tl.trans(slope), query)
    grad_value = _times(tl.trans(weight), given)
    if BEGINNING:
        at = (group * shared + place)[:, None].to(tl.int64) * (2 * width) + columns[None, :]
        grad_key += tl.load(wanted + at, live, other=0.0)
        grad_value += tl.load(wanted + at + width, live, other=0.0)
    else:
        common_weight = tl.where(live, tl.exp(common_score - norm), 0.0)
        common_slope = common_weight * (_times(given, tl.trans(common_value)) - delta)
        grad_query += _times(common_slope, common_key)
        common_place = tl.arange(0, COMMON)
        at = (program.to(tl.int64) * shared + common_place)[:, None] * (2 * width)
        at += columns[None, :]
        known = (common_place < shared)[:, None]
        tl.store(wanted + at, _times(tl.trans(common_slope), query), known)
        tl.store(wanted + at + width, _times(tl.trans(common_weight), given), known)
    dtype = grad_qkv.dtype.element_ty
    at = (start + place)[:, None].to(tl.int64) * (3 * width) + columns[None, :]
    tl.store(grad_qkv + at, grad_query.to(dtype), live)
    tl.store(grad_qkv + at + width, grad_key.to(dtype), live)
    tl.store(grad_qkv + at + 2 * width, grad_value.to(dtype), live)


def _run_forward(
    qkv: Tensor, heads: int, firsts: Tensor, tiles: Tensor, most: int, shared: int, prefix: Any
) -> tuple[Tensor, Tensor]:
    """The attention, and the logarithm of each row's sum of weights (rows, heads)."""
    groups, rows, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    out = qkv.new_empty(groups, rows, width)
    lse = qkv.new_empty(groups * rows, heads, dtype=torch.float32)
    each = len(tiles) - 1
    if prefix is None:
        keys, values, lengths = qkv[..., width:], qkv[..., 2 * width :], firsts
        common, strides = shared, qkv.stride()[:2]
    else:
        keys, values, lengths = prefix
        common, strides = keys.shape[1], keys.stride()[:2]
    _forward[(groups * each * heads,)](
        qkv, keys, values, lengths, out, lse, firsts, tiles,
        rows, each, shared, common, *strides, heads,
        **_sizes(width, heads, most, common), PADDED=prefix is not None,
    )  # fmt: skip
    return out, lse


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, heads: int, firsts: Tensor, tiles: Tensor, most: int, shared: int
    ) -> Tensor:
        out, lse = _run_forward(qkv, heads, firsts, tiles, most, shared, None)
        ctx.save_for_backward(qkv, out, lse, firsts, tiles)
        ctx.heads, ctx.most, ctx.shared = heads, most, shared
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        qkv, out, lse, firsts, tiles = ctx.saved_tensors
        heads, shared, (groups, rows, width) = ctx.heads, ctx.shared, out.shape
        grad_qkv = torch.empty_like(qkv)
        known = (qkv, out, lse, grad.contiguous(), grad_qkv, firsts, tiles)
        sizes = _sizes(width, heads, ctx.most, shared)
        beginning = 1 if shared else 0  # the first tile of each group
        each = len(tiles) - 1 - beginning
        wanted = qkv.new_empty(groups, each, shared, 2 * width, dtype=torch.float32)
        _backward[(groups * each * heads,)](
            *known, wanted, rows, each, beginning, shared, heads, **sizes, BEGINNING=False
        )
        if shared:
            _backward[(groups * heads,)](
                *known, wanted.sum(1), rows, 1, 0, shared, heads, **sizes, BEGINNING=True
            )
        return grad_qkv, None, None, None, None, None


def _sizes(width: int, heads: int, rows: int, common: int) -> dict[str, int]:
    """The block sizes of programs with this number of rows."""
    block, before = (triton.next_power_of_2(max(LEAST, count)) for count in (rows, common))
    return {"HEAD": width // heads, "BLOCK": block, "COMMON": before}
