"""From an image to a backbone's pixels: the centre crop for testing, random crops for training."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LONGEST_RATIO = 8


@dataclass(frozen=True)
class Preprocessing:
    """Sizes and statistics of a backbone's image transform, as the model's files state them."""

    resize: int  # short side
    crop: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resample: int = Image.Resampling.BICUBIC
    squash: bool = False  # the whole image to crop x crop, whatever its shape

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values for JSON."""
        values = {**asdict(self), "resample": int(self.resample)}
        values.update(mean=list(self.mean), std=list(self.std))
        return values

    def evaluate(self, image: Image.Image) -> np.ndarray[Any, Any]:
        """The centre of the resized image, or all of it: (crop, crop, 3) in bytes."""
        return np.asarray(self.centre(image))

    def centre(self, image: Image.Image) -> Image.Image:
        """The same as an image."""
        if self.squash:
            return image.resize((self.crop, self.crop), Image.Resampling(self.resample))
        image = _crop_long_ends(image)
        width, height = image.size
        short = min(width, height)
        # Rounded down as transformers and torchvision do, and never below the crop.
        size = (
            max(self.resize, self.resize * width // short),
            max(self.resize, self.resize * height // short),
        )
        image = image.resize(size, Image.Resampling(self.resample))
        left, top = centre_offset(size[0] - self.crop), centre_offset(size[1] - self.crop)
        return image.crop((left, top, left + self.crop, top + self.crop))

    def augment(self, image: Image.Image, stream: random.Random) -> Image.Image:
        """A random resized crop (area 8-100 %, ratio 3:4 to 4:3), flipped half the time."""
        box, flip = random_crop_box(image.size, stream), stream.random() < 0.5
        image = image.resize((self.crop, self.crop), Image.Resampling(self.resample), box=box)
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else image

    def normalise(self, pixels: Tensor) -> Tensor:
        """Bytes (batch, height, width, 3) as floats (batch, 3, height, width).

        The bytes may have a fourth channel, which is ignored.
        """
        import torch  # not above: the processes that decode images for the service need no torch

        device = pixels.device
        constant = _on_gpu if device.type == "cuda" else torch.tensor
        mean, std = constant(self.mean, device=device), constant(self.std, device=device)
        return ((pixels[..., :3].float() / 255.0 - mean) / std).permute(0, 3, 1, 2)


@cache
def _on_gpu(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers on a GPU, sent there once, because sending waits for the work before it."""
    import torch

    return torch.tensor(values, device=device)


def _crop_long_ends(image: Image.Image) -> Image.Image:
    # A strip of 1 x 65,000 px would otherwise be enlarged as a whole for the sake of its middle.
    width, height = image.size
    longest = LONGEST_RATIO * min(width, height)
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    if not left and not top:
        return image
    return image.crop((left, top, width - left, height - top))


def centre_offset(margin: int) -> int:
    """What is cut off before the centre: half pixels go to even, as in torchvision."""
    return round(margin / 2)


def random_crop_box(size: tuple[int, int], stream: random.Random) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of a random crop of 8 to 100 % of the area."""
    width, height = size
    for _ in range(10):
        area = width * height * stream.uniform(0.08, 1.0)
        ratio = np.exp(stream.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            left, top = stream.randint(0, width - w), stream.randint(0, height - h)
            return left, top, left + w, top + h
    # A very long or thin image: the largest centre crop with an allowed ratio.
    w = min(width, round(height * 4 / 3))
    h = min(height, round(width * 4 / 3))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h
