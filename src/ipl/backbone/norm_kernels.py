"""The sum of a residual stream and a branch, and its norm, on an NVIDIA GPU: a kernel each way.

These are passes over memory, which torch does one after the other, in the backward pass as well.
Rows that enter the stream before a layer are put there in the same pass.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ipl.backbone.replaced_rows import EnteringRows

ROWS = 2  # per program


@triton.jit
def _enters(row, first, count, part, parts):
    """Returns which rows are replaced, and by which one."""
    place = row % part - first
    return (place >= 0) & (place < count) & (row < part * parts), place


@triton.jit(do_not_specialize=["total", "first", "count", "part", "parts"])
def _forward(
    rows, branch, entering, stream, normed, deviations, total, width, eps,
    first, count, part, parts,
    ADDS: tl.constexpr, ENTERS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (columns < width)[None, :]
    live = inside & (row < total)[:, None]
    at = row[:, None].to(tl.int64) * width + columns[None, :]
    x = tl.load(rows + at, live, other=0.0).to(tl.float32)
    if ADDS:
        x += tl.load(branch + at, live, other=0.0).to(tl.float32)
    if ENTERS:
        new, place = _enters(row, first, count, part, parts)
        known = place[:, None] * width + columns[None, :]
        entered = tl.load(entering + known, new[:, None] & inside, other=0.0).to(tl.float32)
        x = tl.where(new[:, None], entered, x)
    if ADDS or ENTERS:
        rounded = x.to(stream.dtype.element_ty)
        tl.store(stream + at, rounded, live)
        x = rounded.to(tl.float32)
    x = tl.where(inside, x - (tl.sum(x, 1) / width)[:, None], 0.0)
    deviation = tl.rsqrt(tl.sum(x * x, 1) / width + eps)
    tl.store(normed + at, (x * deviation[:, None]).to(normed.dtype.element_ty), live)
    tl.store(deviations + row, deviation, row < total)


@triton.jit(do_not_specialize=["total", "first", "count", "part", "parts"])
def _backward(
    normed, deviations, grad_normed, grad_stream, grad, grad_entering, total, width,
    first, count, part, parts,
    ADDS: tl.constexpr, ENTERS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (columns < width)[None, :]
    live = inside & (row < total)[:, None]
    at = row[:, None].to(tl.int64) * width + columns[None, :]
    x = tl.load(normed + at, live, other=0.0).to(tl.float32)
    given = tl.load(grad_normed + at, live, other=0.0).to(tl.float32)
    deviation = tl.load(deviations + row, row < total, other=0.0)
    along = tl.sum(given * x, 1) / width
    found = tl.where(live, given - (tl.sum(given, 1) / width)[:, None] - x * along[:, None], 0.0)
    found *= deviation[:, None]
    if ADDS:
        found += tl.load(grad_stream + at, live, other=0.0).to(tl.float32)
    if ENTERS:
        new, place = _enters(row, first, count, part, parts)
        known = (row // part * count + place)[:, None] * width + columns[None, :]
        kind = grad_entering.dtype.element_ty
        tl.store(grad_entering + known, found.to(kind), new[:, None] & inside)
        found = tl.where(new[:, None], 0.0, found)
    tl.store(grad + at, found.to(grad.dtype.element_ty), live)


class _AddAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        branch: Tensor | None,
        entering: Tensor | None,
        where: tuple[int, int, int, int],
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        rows = rows.contiguous()
        adds, enters = branch is not None, entering is not None
        stream = torch.empty_like(rows) if adds or enters else rows
        normed = torch.empty_like(rows)
        width = rows.shape[-1]
        total = rows.numel() // width
        deviations = rows.new_empty(total, dtype=torch.float32)
        _forward[(triton.cdiv(total, ROWS),)](
            rows,
            rows if branch is None else branch.contiguous(),
            rows if entering is None else entering.contiguous(),
            stream, normed, deviations, total, width, eps, *where,
            ADDS=adds, ENTERS=enters, ROWS=ROWS, BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        ctx.save_for_backward(normed, deviations)
        ctx.adds, ctx.enters, ctx.where = adds, enters, where
        ctx.set_materialize_grads(False)
        return stream, normed

    @staticmethod
    def backward(
        ctx: Any, grad_stream: Tensor | None, grad_normed: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, None, None]:
        normed, deviations = ctx.saved_tensors
        grad, grad_entering = torch.empty_like(normed), None
        width = normed.shape[-1]
        if ctx.enters:
            _, count, _, parts = ctx.where
            kind = normed.dtype if parts == 1 else torch.float32  # sums are rounded once
            grad_entering = normed.new_empty(parts, count, width, dtype=kind)
        _backward[(triton.cdiv(len(deviations), ROWS),)](
            normed, deviations, grad_normed.contiguous(),
            normed if grad_stream is None else grad_stream.contiguous(),
            grad, grad if grad_entering is None else grad_entering, len(deviations), width,
            *ctx.where, ADDS=grad_stream is not None, ENTERS=ctx.enters,
            ROWS=ROWS, BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        if grad_entering is not None:
            several = len(grad_entering) > 1
            grad_entering = grad_entering.sum(0).to(normed.dtype) if several else grad_entering[0]
        return grad, grad if ctx.adds else None, grad_entering, None, None


def add_and_norm(
    rows: Tensor, branch: Tensor | None, entering: EnteringRows | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Returns rows + branch (..., width) with the entering rows, and its norm.

    The norm is a layer norm without scale and shift.
    """
    new, where = None, (0, 0, 1, 0)
    if entering is not None:
        new = entering.rows
        where = (entering.first, len(new), entering.part, entering.parts)
    stream, normed = _AddAndNorm.apply(rows, branch, new, where, eps)
    return stream, normed
