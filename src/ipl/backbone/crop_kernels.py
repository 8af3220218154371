"""Two Triton kernels that resize crops of images of different sizes: along rows, then columns."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ipl.backbone.bicubic import BITS, Weights

ROWS, COLUMNS = 16, 64  # of the output, per program
HALF = tl.constexpr(1 << (BITS - 1))
SHIFT = tl.constexpr(BITS)


@triton.jit
def _clip(total):
    return tl.minimum(tl.maximum(total >> SHIFT, 0), 255).to(tl.uint8)


@triton.jit
def _across(
    images, widths, first_rows, row_counts, first, weights, out, most, size, taps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Resizes the rows of each image that its crop needs, to (crops, most, size, 3)."""
    crop = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < size
    live = (row < tl.load(row_counts + crop))[:, None] & inside[None, :]
    image = tl.load(images + crop).to(tl.pointer_type(tl.uint8))
    width = tl.load(widths + crop)
    start = tl.load(first + crop * size + column, inside, other=0)
    from_row = (tl.load(first_rows + crop) + row)[:, None] * width
    red = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    green = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    blue = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    for tap in range(taps):
        weight = tl.load(weights + (crop * size + column) * taps + tap, inside, other=0)[None, :]
        at = (from_row + (start + tap)[None, :]) * 3
        seen = live & ((start + tap) < width)[None, :]
        red += tl.load(image + at, seen, other=0).to(tl.int32) * weight
        green += tl.load(image + at + 1, seen, other=0).to(tl.int32) * weight
        blue += tl.load(image + at + 2, seen, other=0).to(tl.int32) * weight
    to = out + ((crop * most + row[:, None]) * size + column[None, :]) * 3
    tl.store(to, _clip(red), live)
    tl.store(to + 1, _clip(green), live)
    tl.store(to + 2, _clip(blue), live)


@triton.jit
def _down(
    rows, first_rows, row_counts, first, weights, flips, out, most, size, taps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Resizes the columns of (crops, most, size, 3), to (crops, size, size, 3)."""
    crop = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row < size
    live = inside[:, None] & (column < size)[None, :]
    count = tl.load(row_counts + crop)
    start = tl.load(first + crop * size + row, inside, other=0) - tl.load(first_rows + crop)
    red = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    green = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    blue = tl.full((ROWS, COLUMNS), HALF, tl.int32)
    for tap in range(taps):
        weight = tl.load(weights + (crop * size + row) * taps + tap, inside, other=0)[:, None]
        at = ((crop * most + start + tap)[:, None] * size + column[None, :]) * 3
        seen = live & ((start + tap) < count)[:, None]
        red += tl.load(rows + at, seen, other=0).to(tl.int32) * weight
        green += tl.load(rows + at + 1, seen, other=0).to(tl.int32) * weight
        blue += tl.load(rows + at + 2, seen, other=0).to(tl.int32) * weight
    place = tl.where(tl.load(flips + crop) != 0, size - 1 - column, column)
    to = out + ((crop * size + row[:, None]) * size + place[None, :]) * 3
    tl.store(to, _clip(red), live)
    tl.store(to + 1, _clip(green), live)
    tl.store(to + 2, _clip(blue), live)


def cut(
    images: Tensor, widths: Tensor, flips: Tensor, across: Weights, down: Weights, most: int
) -> Tensor:
    """Returns crops (crops, size, size, 3) of bytes; the weights say where they are cut.

    `images` are addresses (crops,) of images on the GPU, of whose rows a crop needs `most` or less.
    """
    device, (crops, size) = widths.device, across.first.shape
    first_rows = down.first[:, 0].contiguous()
    row_counts = down.end[:, -1] - first_rows
    rows = torch.empty(crops, most, size, 3, dtype=torch.uint8, device=device)
    out = torch.empty(crops, size, size, 3, dtype=torch.uint8, device=device)
    blocks = triton.cdiv(size, COLUMNS)
    _across[(crops, triton.cdiv(most, ROWS), blocks)](
        images, widths, first_rows, row_counts, across.first, across.weights, rows, most, size,
        across.weights.shape[-1], ROWS=ROWS, COLUMNS=COLUMNS,
    )  # fmt: skip
    _down[(crops, triton.cdiv(size, ROWS), blocks)](
        rows, first_rows, row_counts, down.first, down.weights, flips, out, most, size,
        down.weights.shape[-1], ROWS=ROWS, COLUMNS=COLUMNS,
    )  # fmt: skip
    return out
