"""Pillow's bicubic resizing of many crops at once, on the device that holds the images.

The arithmetic is Pillow's own: weights in fp64, rounded to 22 bits, summed as whole numbers, first
along rows and then along columns, with bytes in between. The crops are therefore the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

BITS = 22  # of a weight after the point
SUPPORT = 2.0  # pixels on either side of the centre that a bicubic weight reaches
Box = tuple[int, int, int, int]  # left, top, right, bottom


class Weights(NamedTuple):
    """What each output pixel along one axis takes of the input pixels."""

    first: Tensor  # (crops, size), the first input pixel of each output pixel
    end: Tensor  # (crops, size), the one after its last input pixel
    weights: Tensor  # (crops, size, taps), whole numbers; 0 from the end on


def weights_along(lengths: Tensor, starts: Tensor, ends: Tensor, size: int, taps: int) -> Weights:
    """Returns the weights of crops from `starts` to `ends` of axes of `lengths` pixels (crops,).

    No output pixel may take more than `taps` input pixels (`most_taps`). Every step is one
    operation in fp64, in Pillow's order, so that every rounding is the same.
    """
    lengths, starts, ends = (values.double()[:, None] for values in (lengths, starts, ends))
    scale = (ends - starts) / size
    stretch = scale.clamp_min(1.0)
    reach = SUPPORT * stretch
    centre = starts + (torch.arange(size, device=lengths.device).double() + 0.5) * scale
    first = (centre - reach + 0.5).long().clamp_min(0)
    end = torch.minimum((centre + reach + 0.5).long(), lengths.long())
    place = torch.arange(taps, device=lengths.device)
    away = (place + first[..., None]).double() - centre[..., None] + 0.5
    away = (away * (1 / stretch)[..., None]).abs()
    near = (1.5 * away - 2.5) * away * away + 1
    far = (((away - 5) * away + 8) * away - 4) * -0.5
    weights = torch.where(away < 1, near, torch.where(away < 2, far, 0.0))
    weights = torch.where(place < (end - first)[..., None], weights, 0.0)
    total = torch.zeros_like(centre)
    for tap in range(taps):  # one after the other, as the rounding of a sum depends on its order
        total = total + weights[..., tap]
    scaled = weights / total[..., None] * (1 << BITS)
    return Weights(first, end, (scaled + torch.where(scaled < 0, -0.5, 0.5)).int())


def most_taps(longest: int, size: int) -> int:
    """Returns the most input pixels of an output pixel, if no crop is longer than `longest`."""
    return int(2 * SUPPORT * max(longest / size, 1.0)) + 2


@cache
def can_cut_on(device: torch.device) -> bool:
    """Returns whether `cut` works on a device: on an NVIDIA GPU, with Triton."""
    return device.type == "cuda" and find_spec("triton") is not None


def cut(images: Sequence[Tensor], boxes: Sequence[Box], flips: Sequence[bool], size: int) -> Tensor:
    """Returns crops (crops, size, size, 3), resized to a square and flipped where asked.

    Parameters
    ----------
    images : sequence of Tensor of shape (height, width, 3)
        Bytes on one NVIDIA GPU, an image for each crop.
    boxes : sequence of tuple of int
        Left, top, right and bottom of each crop.
    flips : sequence of bool
        Whether to turn left and right around.
    size : int
        Pixels along an edge.
    """
    from ipl.backbone import crop_kernels

    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    heights = [image.shape[0] for image in images]
    widths = [image.shape[1] for image in images]
    # Both axes at once, with no number read back: the launches may run ahead of the GPU.
    axes = [[*widths, *heights], [*lefts, *tops], [*rights, *bottoms]]
    longest = max(end - start for start, end in zip(*axes[1:], strict=True))
    taps = most_taps(longest, size)
    pointers = [image.data_ptr() for image in images]
    numbers = torch.tensor([*axes, [*pointers, *flips]]).to(images[0].device, non_blocking=True)
    lengths, starts, ends, others = numbers
    first, end, weights = weights_along(lengths, starts, ends, size, taps)
    rows = min(max(heights), longest + 2 * taps)  # of an image that a crop needs, at most
    crops = len(images)
    return crop_kernels.cut(
        others[:crops],
        lengths[:crops],
        others[crops:],
        Weights(first[:crops], end[:crops], weights[:crops]),
        Weights(first[crops:], end[crops:], weights[crops:]),
        rows,
    )
