"""The image transform against `transformers`' own processor."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from ipl.backbone.backbone import Backbone
from ipl.backbone.preprocessing import Preprocessing, random_crop_box

Processor = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


# The library rounds half pixels down, torchvision (and ours) to even: 38 x 150 leaves no half.
@pytest.mark.parametrize("size", [(96, 96), (64, 64), (200, 81), (38, 150), (2, 2), (5, 900)])
def test_evaluation_is_the_librarys(pocket: Backbone, size: tuple[int, int]) -> None:
    image = noise(*size)
    library = Processor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    expected = torch.tensor(np.array(library(image, return_tensors="np")["pixel_values"]))
    crop = pocket.preprocessing.evaluate(image)
    ours = pocket.preprocessing.normalise(torch.from_numpy(crop.copy())[None])
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_crops_stay_inside_and_cover_8_to_100_percent() -> None:
    stream = random.Random(0)
    shares = []
    for _ in range(2000):
        left, top, right, bottom = random_crop_box((120, 80), stream)
        assert 0 <= left < right <= 120
        assert 0 <= top < bottom <= 80
        assert 0.7 < (right - left) / (bottom - top) < 1.4
        shares.append((right - left) * (bottom - top) / (120 * 80))
    assert min(shares) < 0.12
    assert max(shares) > 0.85


def test_a_thin_image_gets_the_largest_allowed_crop() -> None:
    assert random_crop_box((1000, 3), random.Random(0)) == (498, 0, 502, 3)


def test_a_crop_depends_on_its_stream_alone(pocket: Backbone) -> None:
    image = noise(90, 120)
    first, again, other = (
        np.asarray(pocket.preprocessing.augment(image, random.Random(s))) for s in (1, 1, 2)
    )
    assert first.shape == (64, 64, 3)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("extra", "left"), [(1, 0), (2, 1), (3, 2), (5, 2), (7, 4)])
def test_half_pixels_of_the_centre_crop_go_to_the_even_side(extra: int, left: int) -> None:
    """As torchvision's CenterCrop: int(round(extra / 2)), and Python rounds halves to even."""
    columns = np.arange(64 + extra, dtype=np.uint8)
    image = Image.fromarray(np.broadcast_to(columns, (64, 64 + extra)).copy()).convert("RGB")
    preprocessing = Preprocessing(64, 64, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert preprocessing.evaluate(image)[0, 0, 0] == left == round(extra / 2)
