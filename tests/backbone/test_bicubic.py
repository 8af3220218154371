"""Crops of many images at once: the bytes that Pillow gives."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from PIL import Image

from ipl.backbone import bicubic
from ipl.backbone.bicubic import BITS, weights_along
from ipl.backbone.preprocessing import draw_crop, random_crop_box

Bytes = np.ndarray
SIZES = [(5, 300, 64), (300, 7, 32), (64, 64, 64), (200, 150, 224), (331, 257, 48), (9, 9, 9)]


def pixels(height: int, width: int) -> Bytes:
    generator = np.random.default_rng(height * 1000 + width)
    return generator.integers(0, 256, (height, width, 3), dtype=np.uint8)


def by_pillow(image: Bytes, box: bicubic.Box, size: int) -> Bytes:
    resized = Image.fromarray(image).resize((size, size), Image.Resampling.BICUBIC, box=box)
    return np.asarray(resized)


def matrix(length: int, start: int, end: int, size: int) -> np.ndarray:
    """Returns the weights along one axis as a matrix (size, length) of whole numbers."""
    first, ends, weights = weights_along(
        *torch.tensor([[length], [start], [end]]), size, bicubic.most_taps(end - start, size)
    )
    assert (ends - first).max() <= weights.shape[-1]
    full = torch.zeros(size, length + weights.shape[-1], dtype=torch.long)
    places = first[0][:, None] + torch.arange(weights.shape[-1])
    full.scatter_(1, places, weights[0].long())
    assert not full[torch.arange(full.shape[1]) >= ends[0][:, None]].any()
    return full[:, :length].numpy()


def clip(total: np.ndarray) -> np.ndarray:
    return np.clip((total + (1 << (BITS - 1))) >> BITS, 0, 255)


@pytest.mark.parametrize(("height", "width", "size"), SIZES)
def test_the_weights_are_pillows(height: int, width: int, size: int) -> None:
    image = pixels(height, width)
    boxes = [(0, 0, width, height), (1, 2, width - 1, height - 1)]
    boxes += [random_crop_box((width, height), random.Random(seed)) for seed in range(5)]
    for box in boxes:
        left, top, right, bottom = box
        across, down = matrix(width, left, right, size), matrix(height, top, bottom, size)
        rows = clip(np.einsum("xw,hwc->hxc", across, image.astype(np.int64)))
        found = clip(np.einsum("yh,hxc->yxc", down, rows))
        assert np.array_equal(found, by_pillow(image, box, size)), box


@pytest.mark.gpu
def test_crops_on_a_gpu_are_pillows_bytes() -> None:
    images = [pixels(*size[:2]) for size in SIZES] * 4
    drawn = [
        draw_crop((image.shape[1], image.shape[0]), random.Random(seed))
        for seed, image in enumerate(images)
    ]
    boxes, flips = zip(*drawn, strict=True)
    on_gpu = [torch.from_numpy(image).cuda() for image in images]
    for size in (32, 224, 100):
        found = bicubic.cut(on_gpu, boxes, flips, size).cpu().numpy()
        for image, box, flip, crop in zip(images, boxes, flips, found, strict=True):
            expected = by_pillow(image, box, size)
            assert np.array_equal(crop, expected[:, ::-1] if flip else expected)
