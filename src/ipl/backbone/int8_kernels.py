"""Triton kernels for the word search in 8-bit integers on a Hopper GPU.

Rows are (rows, prompts, candidates, width). Those of one row and prompt, all candidates, are a
block; what is subtracted before rounding, and the product of it that is added again, belong to a
block. The number of candidates is a multiple of `CANDIDATES`, so that no tile has rows of two.
"""

from __future__ import annotations

import os
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ipl.backbone.folded_layers import Linear
from ipl.backbone.int8_pass import Centre
from ipl.backbone.prefix_attention import Prefix
from ipl.backbone.search_kernels import MANY, attend_kernel, round_to_int8
from ipl.backbone.search_kernels import fits as heads_fit
from ipl.backbone.text_tower import Int8Matrix, TextTower

CANDIDATES = 128
TILE = 128  # columns of a product that a program computes, and of the rows that it loads at once
ROWS = 8  # of a norm, per program
ROOM = 1.2  # times the largest difference in a sample: beyond it, a difference is cut off
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _tanh(x, INTERPRETED: tl.constexpr):
    if INTERPRETED:
        return 1 - 2 / (tl.exp(2 * x) + 1)
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _norm(hidden, centre, out, scales, count, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * ROWS
    rows = first + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = rows[:, None] * width + columns[None, :]
    middle = tl.load(centre + first // count * width + columns, inside, other=0.0).to(tl.float32)
    x = tl.load(hidden + at, inside[None, :], other=0.0).to(tl.float32)
    mean = tl.sum(x, 1) / width
    x = tl.where(inside[None, :], x - mean[:, None], 0.0)
    x = x * tl.rsqrt(tl.sum(x * x, 1) / width + eps)[:, None] - middle[None, :]
    top = tl.maximum(tl.max(tl.abs(x), 1), 1e-6)
    tl.store(out + at, round_to_int8(x * (127.0 / top)[:, None]), inside[None, :])
    tl.store(scales + rows, top / 127.0)


@triton.jit(do_not_specialize=["count"])
def _measure(
    rows, centre, unit, count, blocks, width, room, CANDIDATES: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    block = tl.program_id(0).to(tl.int64)
    candidate = tl.arange(0, CANDIDATES)
    live = (candidate < count)[:, None]
    farthest = 0.0
    for first in range(0, width, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        at = (candidate[:, None] * blocks + block) * width + columns[None, :]
        x = tl.load(rows + at, live, other=0.0).to(tl.float32)
        middle = (tl.sum(x, 0) / count).to(tl.float16)
        tl.store(centre + block * width + columns, middle)
        away = tl.where(live, tl.abs(x - middle.to(tl.float32)[None, :]), 0.0)
        farthest = tl.maximum(farthest, tl.max(away))
    tl.store(unit + block, tl.maximum(farthest * room, 1e-8))


@triton.jit
def _columns(
    sums, scale, row, column, weight_scale, bias, centre, unit, out, block, width,
    SIZE: tl.constexpr, KIND: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    columns = column + tl.arange(0, SIZE)
    slope = tl.load(weight_scale + columns)
    added = tl.load(bias + block * width + columns).to(tl.float32)
    if KIND == "activate":  # SiLU of 2x is x + x * tanh(x)
        slope *= 0.5
        added *= 0.5
    x = sums.to(tl.float32) * scale[:, None] * slope[None, :] + added[None, :]
    if KIND == "activate":
        x = x + x * _tanh(x, INTERPRETED)
        inverse = 1 / tl.load(unit + block)
        shift = tl.load(centre + block * width + columns).to(tl.float32) * inverse
        x = tl.minimum(tl.maximum(x * inverse - shift[None, :], -127.0), 127.0)
        out.store([row, column], round_to_int8(x))
    else:
        if KIND == "add":
            x += out.load([row, column]).to(tl.float32)
        out.store([row, column], x.to(tl.float16))


@triton.jit
def _product(
    rows, scales, weight, weight_scale, bias, centre, unit, out, total, count, width,
    DEPTH: tl.constexpr, KIND: tl.constexpr, HALVES: tl.constexpr, FLATTEN: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    across = width // TILE
    for tile in tl.range(
        tl.program_id(0), total // ROWS * across, tl.num_programs(0), flatten=FLATTEN
    ):
        row = tile // across * ROWS
        column = tile % across * TILE
        sums = tl.zeros((ROWS, TILE), tl.int32)
        for k in tl.range(0, DEPTH, TILE):
            sums = tl.dot(rows.load([row, k]), weight.load([column, k]).T, sums, out_dtype=tl.int32)
        block = row // count
        if KIND == "add":
            scale = tl.load(scales + block) + tl.zeros((ROWS,), tl.float32)
        else:
            scale = tl.load(scales + row + tl.arange(0, ROWS))
        if HALVES:  # less shared memory, so that two programs fit on a multiprocessor
            HALF: tl.constexpr = TILE // 2
            left, right = sums.reshape(ROWS, 2, HALF).permute(0, 2, 1).split()
            _columns(
                left, scale, row, column, weight_scale, bias, centre, unit, out, block, width,
                HALF, KIND, INTERPRETED,
            )  # fmt: skip
            _columns(
                right, scale, row, column + HALF, weight_scale, bias, centre, unit, out, block,
                width, HALF, KIND, INTERPRETED,
            )  # fmt: skip
        else:
            _columns(
                sums, scale, row, column, weight_scale, bias, centre, unit, out, block, width,
                TILE, KIND, INTERPRETED,
            )  # fmt: skip


def centre_of(rows: Tensor, matrix: Linear) -> Centre:
    """Returns the centre of sampled rows (candidates, rows, prompts, in) for a matrix in fp16."""
    count, *blocks, width = rows.shape
    centre = rows.new_empty(*blocks, width)
    unit = rows.new_empty(blocks, dtype=torch.float32)
    _measure[(unit.numel(),)](
        rows, centre, unit, count, unit.numel(), width, ROOM / 127,
        CANDIDATES=triton.next_power_of_2(count), COLUMNS=TILE,
    )  # fmt: skip
    return Centre(centre, matrix(centre), unit)


def norm(out: Tensor, scales: Tensor, hidden: Tensor, centre: Centre, eps: float) -> None:
    """Writes the norm of rows (..., candidates, width), rounded, and the unit of each row."""
    count, width = hidden.shape[-2:]
    total = hidden.numel() // width
    _norm[(total // ROWS,)](
        hidden, centre.rows, out, scales, count, width, eps, ROWS=ROWS,
        BLOCK=triton.next_power_of_2(width),
    )  # fmt: skip


def project(out: Tensor, rows: Tensor, scales: Tensor, matrix: Int8Matrix, centre: Centre) -> None:
    """Writes the product (..., candidates, out) of rounded rows in fp16."""
    _multiply(rows, scales, matrix, centre, None, out, "project")


def activate(
    out: Tensor, rows: Tensor, scales: Tensor, matrix: Int8Matrix, centre: Centre, after: Centre
) -> None:
    """Writes the SiLU of the product, rounded around the centre of the next product."""
    _multiply(rows, scales, matrix, centre, after, out, "activate")


def add_product(hidden: Tensor, rows: Tensor, matrix: Int8Matrix, centre: Centre) -> None:
    """Adds the product of rows that were rounded around their centre to the hidden rows."""
    _multiply(rows, centre.unit, matrix, centre, None, hidden, "add")


def _multiply(
    rows: Tensor,
    scales: Tensor,
    matrix: Int8Matrix,
    centre: Centre,
    after: Centre | None,
    out: Tensor,
    kind: str,
) -> None:
    count, depth = rows.shape[-2:]
    width, total = len(matrix.weight), rows.numel() // depth
    halves = kind != "activate"
    tiles = total // CANDIDATES * (width // TILE)
    _product[(min(tiles, 2 * _multiprocessors(rows.device)),)](
        TensorDescriptor.from_tensor(rows.view(total, depth), [CANDIDATES, TILE]),
        scales,
        TensorDescriptor.from_tensor(matrix.weight, [TILE, TILE]),
        matrix.scale,
        centre.product,
        None if after is None else after.rows,
        None if after is None else after.unit,
        TensorDescriptor.from_tensor(out.view(total, width), [CANDIDATES, TILE // (1 + halves)]),
        total, count, width, DEPTH=depth, KIND=kind, HALVES=halves, FLATTEN=kind != "add",
        ROWS=CANDIDATES, TILE=TILE, INTERPRETED=INTERPRETED,
        num_warps=8 if kind == "project" else 4, num_stages=3,
    )  # fmt: skip


def attend(out: Tensor, qkv: Tensor, prefix: Prefix, heads: int, centre: Centre) -> None:
    """Writes the attention of the last rows to the prefix and to their own, rounded.

    Queries, keys and values are (rows, prompts, candidates, 3 * width), side by side; as many rows
    ask as the centre has.
    """
    rows, prompts, count = qkv.shape[:3]
    query, key, value = qkv.chunk(3, dim=-1)
    asking, width = len(centre.rows), query.shape[-1]
    query, longest = query[-asking:], prefix.keys.shape[1]
    strides = [(each.stride(2), each.stride(0), each.stride(1)) for each in (query, key, out)]
    attend_kernel[(heads, count // MANY, prompts)](
        query, key, value, *prefix, out, centre.rows, centre.unit, count, longest, width,
        *(stride for three in strides for stride in three),
        BLOCK=max(16, triton.next_power_of_2(longest)), HEAD=width // heads, OWN=rows,
        ASKING=asking, CANDIDATES=MANY,
    )  # fmt: skip


def fits(tower: TextTower) -> bool:
    """Returns whether the matrices and heads of a tower suit the kernels."""
    layer = tower.layers[0]
    sizes = (*layer.out.shape, *layer.down.shape)
    return all(size % TILE == 0 for size in sizes) and heads_fit(sizes[0] // tower.heads)


@cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":  # in Triton's interpreter
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
