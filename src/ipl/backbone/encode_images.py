"""Image files to image features, in batches, with unreadable files set aside."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.clip import Backbone
from ipl.datasets.images import ImageSource, UnreadableImageError, open_image

Source = Path | ImageSource | Image.Image
BATCH = 64
THREADS = 4


@dataclass(frozen=True)
class ImageFeatures:
    """Normalised features of the readable images, and what became of the others."""

    features: Tensor  # (readable, dim)
    kept: tuple[int, ...]  # index into the sources of each feature
    unreadable: tuple[str, ...]  # a reason each


Encode = Callable[[Tensor], Tensor]  # normalised pixels (batch, 3, h, w) to features (batch, dim)


def crop(
    backbone: Backbone, source: Source, stream: random.Random | None = None
) -> np.ndarray[Any, Any]:
    """Returns an image's bytes (height, width, 3): its centre, or a random crop from a stream."""
    if isinstance(source, Image.Image):
        held = source
        source = ImageSource("image", lambda: held)
    image = open_image(source)
    if stream is None:
        return backbone.preprocessing.evaluate(image)
    return backbone.preprocessing.augment(image, stream)


def encode_files(
    backbone: Backbone,
    sources: Sequence[Source],
    advance: Callable[..., None] | None = None,
    augment: Callable[[int], random.Random] | None = None,
    least: int = 1,
    encode: Encode | None = None,
) -> ImageFeatures:
    """Returns the features of images seen once; `augment(index)` gives a random crop's stream.

    A batch of fewer than `least` images is filled up, at the cost of as many: small products
    take other paths through a processor, and the last bits of a feature would tell. `encode` takes
    the place of the frozen image tower.
    """

    def look(numbered: tuple[int, Source]) -> np.ndarray[Any, Any] | UnreadableImageError:
        index, source = numbered
        try:
            return crop(backbone, source, augment(index) if augment else None)
        except UnreadableImageError as error:
            return error

    features, kept, unreadable = [], [], []
    with quiet_threads() as threads:
        for batch in _batches(enumerate(sources)):
            pixels = []
            for (index, _), seen in zip(batch, threads.map(look, batch), strict=True):
                if isinstance(seen, UnreadableImageError):
                    unreadable.append(str(seen))
                else:
                    pixels.append(seen)
                    kept.append(index)
            if pixels:
                filled = pixels + pixels[-1:] * (least - len(pixels))
                found = encode_pixels(backbone, np.stack(filled), encode)
                features.append(found[: len(pixels)])
            if advance is not None:
                advance(len(batch))
    together = torch.cat([backbone.no_features(), *features])
    return ImageFeatures(together, tuple(kept), tuple(unreadable))


@torch.no_grad()
def encode_pixels(
    backbone: Backbone, pixels: np.ndarray[Any, Any], encode: Encode | None = None
) -> Tensor:
    """Returns normalised features (batch, dim) of bytes (batch, height, width, 3)."""
    normalised = to_device(backbone, torch.from_numpy(pixels))
    return normalize((encode or backbone.encode_image)(normalised), dim=-1)


def to_device(backbone: Backbone, pixels: Tensor) -> Tensor:
    """Returns bytes (batch, height, width, 3) as the image tower takes them."""
    return backbone.preprocessing.normalise(pixels.to(backbone.device))


@contextmanager
def quiet_threads() -> Iterator[ThreadPoolExecutor]:
    """Yields threads to open images with; Pillow's remarks on odd metadata are not the user's."""
    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as threads:
        warnings.simplefilter("ignore")
        yield threads


def _batches(numbered: Iterator[tuple[int, Source]]) -> Iterator[list[tuple[int, Source]]]:
    while batch := list(islice(numbered, BATCH)):
        yield batch
