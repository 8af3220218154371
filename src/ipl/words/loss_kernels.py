"""Triton kernels for losses and bounds of texts in half precision, without copies of them.

Their arguments are contiguous.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TEXTS = 16  # of a candidate, one for each class, that are read at once
IMAGES = 128  # per program of the losses


@triton.jit(do_not_specialize=["classes"])
def _cosine_sums(
    features, vectors, rows, sums, lengths, classes, dim,
    TEXTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at, which = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    candidate = at
    if rows is not None:
        candidate = tl.load(rows + at)
    depth = tl.arange(0, BLOCK)
    total = 0.0
    for first in range(0, classes, TEXTS):
        text = first + tl.arange(0, TEXTS)
        known = (text < classes)[:, None] & (depth < dim)[None, :]
        place = text[:, None] * dim + depth[None, :]
        values = tl.load(features + candidate * classes * dim + place, known, 0.0).to(tl.float32)
        length = tl.maximum(tl.sqrt(tl.sum(values * values, 1)), 1e-12)
        slopes = tl.load(vectors + which * classes * dim + place, known, 0.0)
        total += tl.sum(tl.sum(values * slopes, 1) / length)
        if which == 0:
            tl.store(lengths + at * classes + text, length, text < classes)
    tl.store(sums + at * tl.num_programs(1) + which, total)


@triton.jit(do_not_specialize=["classes", "count"])
def _log_sum_exp(
    texts, rows, lengths, images, out, classes, count, dim, scale,
    IMAGES: tl.constexpr, CLASSES: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0) * IMAGES + tl.arange(0, IMAGES)
    at = tl.program_id(1).to(tl.int64)
    candidate = at
    if rows is not None:
        candidate = tl.load(rows + at)
    live = (image < count)[:, None]
    depth = tl.arange(0, DEPTH)
    top = tl.full((IMAGES,), float("-inf"), tl.float32)
    total = tl.zeros((IMAGES,), tl.float32)
    for first in range(0, classes, CLASSES):
        label = first + tl.arange(0, CLASSES)
        known = label < classes
        logits = tl.zeros((IMAGES, CLASSES), tl.float32)
        for k in range(0, dim, DEPTH):
            inside = depth + k < dim
            left = tl.load(
                images + image[:, None] * dim + (depth + k)[None, :], live & inside[None, :], 0.0
            )
            right = tl.load(
                texts + (candidate * classes + label)[None, :] * dim + (depth + k)[:, None],
                known[None, :] & inside[:, None],
                0.0,
            )
            logits = tl.dot(left, right, logits)
        length = tl.load(lengths + at * classes + label, known, 1.0)
        logits = tl.where(known[None, :], logits * (scale / length)[None, :], float("-inf"))
        higher = tl.maximum(top, tl.max(logits, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(logits - higher[:, None]), 1)
        top = higher
    tl.store(out + at * count + image, top + tl.log(total), image < count)


def cosine_sums(
    features: Tensor, vectors: Tensor, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns sums over classes of products of normalised texts with vectors, and texts' lengths.

    Features are (candidates, classes, dim) in half precision, vectors (vectors, classes, dim) in
    fp32, sums (candidates, vectors) and lengths (candidates, classes). `rows` picks candidates.
    """
    (candidates, classes, dim), many = features.shape, len(vectors)
    count = candidates if rows is None else len(rows)
    sums, lengths = (vectors.new_empty(count, size) for size in (many, classes))
    _cosine_sums[(count, many)](
        features, vectors, rows, sums, lengths, classes, dim,
        TEXTS=TEXTS, BLOCK=triton.next_power_of_2(dim),
    )  # fmt: skip
    return sums, lengths


def log_sum_exp(
    texts: Tensor, lengths: Tensor, images: Tensor, scale: float, rows: Tensor | None = None
) -> Tensor:
    """Returns the log of the sum of exp(scale * cosine) over classes (candidates, images).

    Texts (candidates, classes, dim) and images (images, dim), which are normalised, are in half
    precision; `rows` picks candidates, whose texts have these lengths (candidates, classes).
    """
    (classes, dim), count = texts.shape[1:], len(images)
    out = torch.empty(len(lengths), count, dtype=torch.float32, device=texts.device)
    _log_sum_exp[(triton.cdiv(count, IMAGES), len(lengths))](
        texts, rows, lengths, images, out, classes, count, dim, scale,
        IMAGES=IMAGES, CLASSES=64, DEPTH=64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
