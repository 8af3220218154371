"""Turns image files into image features, in batches; unreadable files are set aside."""

from __future__ import annotations

import os
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

from ipl.backbone.backbone import Backbone
from ipl.datasets.images import ImageSource, UnreadableImageError, open_image
from ipl.support.machine import cores

Source = Path | ImageSource | Image.Image
BATCH = 64
FEWEST_THREADS, MOST_THREADS = 4, 16  # that decode images


@dataclass(frozen=True)
class ImageFeatures:
    """Normalised features of the readable images, and why the others could not be read."""

    features: Tensor  # (readable, dim)
    indices: tuple[int, ...]  # of the image that each feature belongs to, among those given
    unreadable: tuple[str, ...]  # a reason for each image that is not among the indices


Encode = Callable[[Tensor], Tensor]  # normalised pixels (batch, 3, h, w) to features (batch, dim)


def open_source(source: Source) -> Image.Image:
    """Returns an image upright and in RGB."""
    if isinstance(source, Image.Image):
        given = source
        source = ImageSource("image", lambda: given)
    return open_image(source)


def crop(
    backbone: Backbone, source: Source, stream: random.Random | None = None
) -> np.ndarray[Any, Any]:
    """Returns bytes (height, width, 3): an image's centre or, with a stream, a random crop."""
    return backbone.preprocessing.crop_of(open_source(source), stream)


def encode_files(
    backbone: Backbone,
    sources: Sequence[Source],
    advance: Callable[..., None] | None = None,
    augment: Callable[[int], random.Random] | None = None,
    smallest_batch: int = 1,
    encode: Encode | None = None,
) -> ImageFeatures:
    """Encode images, each once.

    Parameters
    ----------
    backbone : Backbone
        The model whose image tower runs.
    sources : sequence of Path, ImageSource or PIL.Image.Image
        The images.
    advance : callable, optional
        Called with the number of images after each batch.
    augment : callable, optional
        `augment(index)` returns the random stream of an image's crop; without it, the centre is
        encoded.
    smallest_batch : int, default=1
        A smaller batch is filled up to this number of images: matrix products of a few rows take
        other paths through a processor, which changes the last bits of a feature.
    encode : callable, optional
        Takes the place of the frozen image tower.

    Returns
    -------
    ImageFeatures
        Normalised features of the readable images, in the order given.
    """

    def load(indexed: tuple[int, Source]) -> np.ndarray[Any, Any] | UnreadableImageError:
        index, source = indexed
        try:
            return crop(backbone, source, augment(index) if augment else None)
        except UnreadableImageError as error:
            return error

    features, indices, unreadable = [], [], []
    with image_warnings_off(), decoding_threads() as threads:
        for batch in _batches(enumerate(sources)):
            pixels = []
            for (index, _), result in zip(batch, threads.map(load, batch), strict=True):
                if isinstance(result, UnreadableImageError):
                    unreadable.append(str(result))
                else:
                    pixels.append(result)
                    indices.append(index)
            if pixels:
                filled = pixels + pixels[-1:] * (smallest_batch - len(pixels))
                batch_features = encode_pixels(backbone, torch.from_numpy(np.stack(filled)), encode)
                features.append(batch_features[: len(pixels)])
            if advance is not None:
                advance(len(batch))
    all_features = torch.cat([backbone.no_features(), *features])
    return ImageFeatures(all_features, tuple(indices), tuple(unreadable))


@torch.no_grad()
def encode_pixels(backbone: Backbone, pixels: Tensor, encode: Encode | None = None) -> Tensor:
    """Returns normalised features (batch, dim) of bytes (batch, height, width, 3)."""
    return normalize((encode or backbone.encode_image)(to_device(backbone, pixels)), dim=-1)


def to_device(backbone: Backbone, pixels: Tensor) -> Tensor:
    """Returns bytes (batch, height, width, 3) as the image tower takes them."""
    return backbone.preprocessing.normalise(pixels.to(backbone.device))


def decoding_threads() -> ThreadPoolExecutor:
    """Returns threads that decode images, one for each core of this process, within limits.

    `OMP_NUM_THREADS` says how many cores a process has of those that it shares with others.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    count = int(given) if given.isdecimal() else cores()
    return ThreadPoolExecutor(min(max(count, FEWEST_THREADS), MOST_THREADS))


@contextmanager
def image_warnings_off() -> Iterator[None]:
    """Silences Pillow's warnings about odd metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _batches(indexed: Iterator[tuple[int, Source]]) -> Iterator[list[tuple[int, Source]]]:
    while batch := list(islice(indexed, BATCH)):
        yield batch
