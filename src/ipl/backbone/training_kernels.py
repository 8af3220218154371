"""Attention of prompts with a shared beginning on an NVIDIA GPU: a forward and a backward kernel.

A training step has many prompts of a few rows each, so that a general attention spends its time on
launches and on copies of the shared keys. Here a Triton program takes the rows of one prompt, or
the shared rows of a group, in one head, straight from the matrix of queries, keys and values.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ipl.backbone.shared_prefix import SharedShape

LEAST = 16  # rows of a block, which the matrix units need
PROGRAMS = 512  # that keep a GPU busy; with more prompts, each program takes several


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
def _scores(query, key, common_key, count, seen_before, BLOCK: tl.constexpr, COMMON: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    score = _times(query, tl.trans(key))
    score = tl.where((column <= row) & (column < count), score, float("-inf"))
    common_score = _times(query, tl.trans(common_key))
    seen = tl.arange(0, COMMON)[None, :] < seen_before
    return score, tl.where(seen, common_score, float("-inf"))


@triton.jit
def _forward(
    qkv, out, lse, starts, groups, shared, each, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr,
):  # fmt: skip
    program, head = tl.program_id(0), tl.program_id(1)
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    common = program < groups  # the common rows of a group: they see only themselves
    prompt = program - groups
    group = tl.where(common, program, prompt // each)
    begin = tl.load(starts + prompt, mask=program >= groups, other=0)
    end = tl.load(starts + prompt + 1, mask=program >= groups, other=0)
    first = tl.where(common, program * shared, groups * shared + begin)
    count = tl.where(common, shared, end - begin)
    before = tl.where(common, 0, shared)
    query, key, value = _load(qkv, first, count, width, columns, BLOCK)
    _, common_key, common_value = _load(qkv, group * shared, before, width, columns, COMMON)
    score, common_score = _scores(query, key, common_key, count, before, BLOCK, COMMON)
    top = tl.maximum(tl.max(score, 1), tl.max(common_score, 1))
    weight, common_weight = tl.exp(score - top[:, None]), tl.exp(common_score - top[:, None])
    total = tl.sum(weight, 1) + tl.sum(common_weight, 1)
    mixed = _times(weight, value) + _times(common_weight, common_value)
    place = tl.arange(0, BLOCK)
    at = (first + place)[:, None].to(tl.int64) * width + columns[None, :]
    tl.store(out + at, (mixed / total[:, None]).to(out.dtype.element_ty), (place < count)[:, None])
    tl.store(lse + (first + place) * heads + head, top + tl.log(total), place < count)


@triton.jit
def _backward(
    qkv, out, lse, grad, grad_qkv, starts, wanted, groups, shared, each, heads,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, COMMON: tl.constexpr,
    TURNS: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of TURNS prompts, and to `wanted` the sum of those of the common rows.

    LAST is the pass over the common rows themselves, where `wanted` holds the sum over all prompts.
    """
    program, head = tl.program_id(0), tl.program_id(1)
    width = heads * HEAD
    columns = head * HEAD + tl.arange(0, HEAD)
    parts = tl.cdiv(each, TURNS)
    if LAST:
        group, before = program, 0
    else:
        group, before = program // parts, shared
    _, common_key, common_value = _load(qkv, group * shared, before, width, columns, COMMON)
    grad_common_key = tl.zeros((COMMON, HEAD), tl.float32)
    grad_common_value = tl.zeros((COMMON, HEAD), tl.float32)
    place = tl.arange(0, BLOCK)
    kind = grad_qkv.dtype.element_ty
    for turn in range(TURNS):
        if LAST:
            first, count = program * shared, shared
        else:
            prompt = (program % parts) * TURNS + turn
            inside = prompt < each
            begin = tl.load(starts + group * each + prompt, mask=inside, other=0)
            end = tl.load(starts + group * each + prompt + 1, mask=inside, other=0)
            first, count = groups * shared + begin, end - begin
        query, key, value = _load(qkv, first, count, width, columns, BLOCK)
        score, common_score = _scores(query, key, common_key, count, before, BLOCK, COMMON)
        live = (place < count)[:, None]
        at = (first + place)[:, None].to(tl.int64) * width + columns[None, :]
        given = tl.load(grad + at, live, other=0.0)
        taken = tl.load(out + at, live, other=0.0)
        delta = tl.sum(given.to(tl.float32) * taken.to(tl.float32), 1)[:, None]
        norm = tl.load(lse + (first + place) * heads + head, place < count, other=0.0)[:, None]
        weight = tl.where(live, tl.exp(score - norm), 0.0)
        slope = weight * (_times(given, tl.trans(value)) - delta)
        grad_query = _times(slope, key)
        grad_key = _times(tl.trans(slope), query)
        grad_value = _times(tl.trans(weight), given)
        if LAST:
            at = (first + place)[:, None].to(tl.int64) * (2 * width) + columns[None, :]
            grad_key += tl.load(wanted + at, live, other=0.0)
            grad_value += tl.load(wanted + at + width, live, other=0.0)
        else:
            common_weight = tl.where(live, tl.exp(common_score - norm), 0.0)
            common_slope = common_weight * (_times(given, tl.trans(common_value)) - delta)
            grad_query += _times(common_slope, common_key)
            grad_common_key += _times(tl.trans(common_slope), query)
            grad_common_value += _times(tl.trans(common_weight), given)
        at = (first + place)[:, None].to(tl.int64) * (3 * width) + columns[None, :]
        tl.store(grad_qkv + at, grad_query.to(kind), live)
        tl.store(grad_qkv + at + width, grad_key.to(kind), live)
        tl.store(grad_qkv + at + 2 * width, grad_value.to(kind), live)
    if not LAST:
        common_place = tl.arange(0, COMMON)
        to = (program * shared + common_place)[:, None].to(tl.int64) * (2 * width)
        to += columns[None, :]
        kept = (common_place < shared)[:, None]
        tl.store(wanted + to, grad_common_key, kept)
        tl.store(wanted + to + width, grad_common_value, kept)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, shape: SharedShape, starts: Tensor) -> Tensor:
        rows, width = qkv.shape[0], qkv.shape[1] // 3
        out = qkv.new_empty(rows, width)
        lse = qkv.new_empty(rows, shape.heads, dtype=torch.float32)
        programs = shape.groups + shape.groups * shape.each
        sizes = _sizes(shape, width, max(shape.own, shape.shared))
        order = (shape.groups, shape.shared, shape.each, shape.heads)
        _forward[(programs, shape.heads)](qkv, out, lse, starts, *order, **sizes)
        ctx.save_for_backward(qkv, out, lse, starts)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        qkv, out, lse, starts = ctx.saved_tensors
        shape: SharedShape = ctx.shape
        groups, shared, each, own, heads = shape
        width = out.shape[1]
        grad_qkv = torch.empty_like(qkv)
        known = (qkv, out, lse, grad.contiguous(), grad_qkv, starts)
        turns = _power_below(groups * each * heads // PROGRAMS)
        parts = triton.cdiv(each, turns)
        wanted = qkv.new_empty(groups, parts, shared, 2 * width, dtype=torch.float32)
        sizes = _sizes(shape, width, own)
        order = (groups, shared, each, heads)
        _backward[(groups * parts, heads)](*known, wanted, *order, **sizes, TURNS=turns, LAST=False)
        sizes = _sizes(shape, width, shared)
        _backward[(groups, heads)](*known, wanted.sum(1), *order, **sizes, TURNS=1, LAST=True)
        return grad_qkv, None, None


def _power_below(number: int) -> int:
    """Returns the largest power of two that is not above a number, and at least 1."""
    return 1 << max(0, number.bit_length() - 1)


def _sizes(shape: SharedShape, width: int, rows: int) -> dict[str, int]:
    """Returns the block sizes of programs with this number of rows."""
    block, common = (triton.next_power_of_2(max(LEAST, n)) for n in (rows, shape.shared))
    return {"HEAD": width // shape.heads, "BLOCK": block, "COMMON": common}


def attend(qkv: Tensor, shape: SharedShape, starts: Tensor | None = None) -> Tensor:
    """Returns the attention (rows, width) of queries, keys and values (rows, 3 * width).

    `starts` is that of `OwnRows`; without it, every prompt has all its rows.
    """
    if starts is None:
        end = shape.groups * shape.each * shape.own
        starts = torch.arange(0, end + 1, shape.own, dtype=torch.int32, device=qkv.device)
    mixed: Tensor = _Attend.apply(qkv.contiguous(), shape, starts)
    return mixed
