"""Attention of prompts with a shared beginning on an NVIDIA GPU: a forward and a backward kernel.

A training step has many prompts of a few rows each, so that a general attention spends its time on
launches and on copies of the shared keys. Here a Triton program takes the rows of several prompts,
or the shared rows of a group, in one head, straight from the matrix of queries, keys and values.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ipl.backbone.shared_prefix import OwnRows, SharedShape

LEAST = 16  # rows of a block, which the matrix units need


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
    """Returns the scores of a tile's rows, `first` being where each row's prompt begins in it."""
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
@triton.jit(do_not_specialize=["groups", "shared", "each", "heads"])
def _forward(
    qkv, out, lse, firsts, tiles, groups, shared, each, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr,
):  # fmt: skip
    program, head = tl.program_id(0), tl.program_id(1)
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    place = tl.arange(0, BLOCK)
    common = program < groups  # the common rows of a group: they see only themselves
    tile = tl.maximum(program - groups, 0)
    group = tl.where(common, program, tile // each)
    begin, end = tl.load(tiles + tile), tl.load(tiles + tile + 1)
    start = tl.where(common, program * shared, groups * shared + begin)
    count = tl.where(common, shared, end - begin)
    before = tl.where(common, 0, shared)
    own = tl.where(common, 0, end - begin)
    first = tl.load(firsts + begin + place, place < own, other=begin) - begin
    query, key, value = _load(qkv, start, count, width, columns, BLOCK)
    _, common_key, common_value = _load(qkv, group * shared, before, width, columns, COMMON)
    score, common_score = _scores(query, key, common_key, first, count, before, BLOCK, COMMON)
    top = tl.maximum(tl.max(score, 1), tl.max(common_score, 1))
    weight, common_weight = tl.exp(score - top[:, None]), tl.exp(common_score - top[:, None])
    total = tl.sum(weight, 1) + tl.sum(common_weight, 1)
    mixed = _times(weight, value) + _times(common_weight, common_value)
    at = (start + place)[:, None].to(tl.int64) * width + columns[None, :]
    tl.store(out + at, (mixed / total[:, None]).to(out.dtype.element_ty), (place < count)[:, None])
    tl.store(lse + (start + place) * heads + head, top + tl.log(total), place < count)


@triton.jit(do_not_specialize=["groups", "shared", "each", "heads"])
def _backward(
    qkv, out, lse, grad, grad_qkv, firsts, tiles, wanted, groups, shared, each, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a tile, and to `wanted` those of the common rows that it asks for.

    LAST is the pass over the common rows themselves, where `wanted` holds the sum over all tiles.
    """
    program, head = tl.program_id(0), tl.program_id(1)
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    place = tl.arange(0, BLOCK)
    if LAST:
        group, before, start, count = program, 0, program * shared, shared
        first = tl.zeros((BLOCK,), tl.int32)
    else:
        group, before = program // each, shared
        begin = tl.load(tiles + program)
        start, count = groups * shared + begin, tl.load(tiles + program + 1) - begin
        first = tl.load(firsts + begin + place, place < count, other=begin) - begin
    query, key, value = _load(qkv, start, count, width, columns, BLOCK)
    _, common_key, common_value = _load(qkv, group * shared, before, width, columns, COMMON)
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
    if LAST:
        at = (start + place)[:, None].to(tl.int64) * (2 * width) + columns[None, :]
        grad_key += tl.load(wanted + at, live, other=0.0)
        grad_value += tl.load(wanted + at + width, live, other=0.0)
    else:
        common_weight = tl.where(live, tl.exp(common_score - norm), 0.0)
        common_slope = common_weight * (_times(given, tl.trans(common_value)) - delta)
        grad_query += _times(common_slope, common_key)
        common_place = tl.arange(0, COMMON)
        at = (program * shared + common_place)[:, None].to(tl.int64) * (2 * width)
        at += columns[None, :]
        kept = (common_place < shared)[:, None]
        tl.store(wanted + at, _times(tl.trans(common_slope), query), kept)
        tl.store(wanted + at + width, _times(tl.trans(common_weight), given), kept)
    kind = grad_qkv.dtype.element_ty
    at = (start + place)[:, None].to(tl.int64) * (3 * width) + columns[None, :]
    tl.store(grad_qkv + at, grad_query.to(kind), live)
    tl.store(grad_qkv + at + width, grad_key.to(kind), live)
    tl.store(grad_qkv + at + 2 * width, grad_value.to(kind), live)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, shape: SharedShape, firsts: Tensor, tiles: Tensor, most: int
    ) -> Tensor:
        rows, width = qkv.shape[0], qkv.shape[1] // 3
        out = qkv.new_empty(rows, width)
        lse = qkv.new_empty(rows, shape.heads, dtype=torch.float32)
        sizes = _sizes(shape, width, max(most, shape.shared))
        order = (shape.groups, shape.shared, (len(tiles) - 1) // shape.groups, shape.heads)
        programs = shape.groups + len(tiles) - 1
        _forward[(programs, shape.heads)](qkv, out, lse, firsts, tiles, *order, **sizes)
        ctx.save_for_backward(qkv, out, lse, firsts, tiles)
        ctx.shape, ctx.order, ctx.most = shape, order, most
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        qkv, out, lse, firsts, tiles = ctx.saved_tensors
        shape, width = ctx.shape, out.shape[1]
        groups, shared, each, heads = ctx.order
        grad_qkv = torch.empty_like(qkv)
        known = (qkv, out, lse, grad.contiguous(), grad_qkv, firsts, tiles)
        wanted = qkv.new_empty(groups, each, shared, 2 * width, dtype=torch.float32)
        sizes = _sizes(shape, width, ctx.most)
        _backward[(groups * each, heads)](*known, wanted, *ctx.order, **sizes, LAST=False)
        sizes = _sizes(shape, width, shared)
        _backward[(groups, heads)](*known, wanted.sum(1), *ctx.order, **sizes, LAST=True)
        return grad_qkv, None, None, None, None


def _sizes(shape: SharedShape, width: int, rows: int) -> dict[str, int]:
    """Returns the block sizes of programs with this number of rows."""
    block, common = (triton.next_power_of_2(max(LEAST, n)) for n in (rows, shape.shared))
    return {"HEAD": width // shape.heads, "BLOCK": block, "COMMON": common}


def attend(qkv: Tensor, shape: SharedShape, own_rows: OwnRows | None = None) -> Tensor:
    """Returns the attention (rows, width) of queries, keys and values (rows, 3 * width)."""
    if own_rows is None:  # every prompt has all its rows
        own_rows = OwnRows.equal(shape.each, shape.own, qkv.device, qkv.dtype)
        own_rows = own_rows.for_groups(shape.groups, shape.own)
    mixed: Tensor = _Attend.apply(
        qkv.contiguous(), shape, own_rows.firsts, own_rows.tiles, own_rows.most
    )
    return mixed
