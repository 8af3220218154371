"""Turns image files into image features, in batches; unreadable files are set aside."""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
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
BATCH, GPU_BATCH = 64, 128  # images that go through the image tower together
AHEAD = 4  # batches that are opened while one is encoded
FEWEST_THREADS, MOST_THREADS = 4, 16  # that decode images


@dataclass(frozen=True)
class ImageFeatures:
    """Normalised features of the readable images, and why the others could not be read."""

    features: Tensor  # (readable, dim)
    indices: tuple[int, ...]  # of the image that each feature belongs to, among those given
    unreadable: tuple[str, ...]  # a reason for each image that is not among the indices

    @property
    def images(self) -> int:
        """Returns how many images were given."""
        return len(self.indices) + len(self.unreadable)


Crop = np.ndarray[Any, Any]  # bytes (height, width, 3)
Encode = Callable[[Tensor], Tensor]  # normalised pixels (batch, 3, h, w) to features (batch, dim)
Opened = Crop | UnreadableImageError


def open_source(source: Source) -> Image.Image:
    """Returns an image upright and in RGB."""
    if isinstance(source, Image.Image):
        given = source
        source = ImageSource("image", lambda: given)
    return open_image(source)


def crop(backbone: Backbone, source: Source) -> Crop:
    """Returns an image's centre."""
    return backbone.preprocessing.evaluate(open_source(source))


class CentreCrops:
    """Opens images and cuts their centres; as long as there is room, it keeps the bytes.

    Learners that prompt images encode the same images again after every training.

    Parameters
    ----------
    backbone : Backbone
        Its preprocessing says how crops are cut.
    room : int, default=0
        Bytes of memory for crops.
    """

    def __init__(self, backbone: Backbone, room: int = 0) -> None:
        self.backbone, self.room = backbone, room
        self._kept: dict[Source, Crop] = {}
        self._lock = threading.Lock()

    def cut(self, source: Source) -> Opened:
        """Returns the crop of an image, or why it cannot be read."""
        kept = self._kept.get(source) if self._kept else None
        if kept is not None:
            return kept
        try:
            pixels = crop(self.backbone, source)
        except UnreadableImageError as error:
            return error
        with self._lock:
            if pixels.nbytes <= self.room and source not in self._kept:
                self._kept[source] = pixels
                self.room -= pixels.nbytes
        return pixels


def encode_files(
    backbone: Backbone,
    sources: Sequence[Source],
    advance: Callable[..., None] | None = None,
    encode: Encode | None = None,
    crops: CentreCrops | None = None,
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
    encode : callable, optional
        Takes the place of the frozen image tower.
    crops : CentreCrops, optional
        Has crops of images that need not be opened again, and keeps others.

    Returns
    -------
    ImageFeatures
        Normalised features of the readable images, in the order given.
    """
    features, indices, unreadable = [backbone.no_features()], list[int](), list[str]()
    done = 0
    for batch in encode_batches(backbone, sources, 1, encode, crops):
        features.append(batch.features)
        indices += [done + index for index in batch.indices]
        unreadable += batch.unreadable
        done += batch.images
        if advance is not None:
            advance(batch.images)
    return ImageFeatures(torch.cat(features), tuple(indices), tuple(unreadable))


def encode_batches(
    backbone: Backbone,
    sources: Sequence[Source],
    smallest: int = 1,
    encode: Encode | None = None,
    crops: CentreCrops | None = None,
) -> Generator[ImageFeatures, None, None]:
    """Encode images, and get the features of each batch as soon as it is done.

    Parameters
    ----------
    backbone, sources, encode, crops
        As in `encode_files`.
    smallest : int, default=1
        A smaller batch is filled up to this number of images: matrix products of a few rows take
        other paths through a processor, which changes the last bits of a feature.

    Yields
    ------
    ImageFeatures
        Of the next images; indices are counted from the first of them.
    """
    with image_warnings_off(), decoding_threads() as threads:
        for batch in _opened_ahead(threads, crops or CentreCrops(backbone), sources):
            indices, pixels, unreadable = [], [], []
            for index, opened in enumerate(batch):
                if isinstance(opened, UnreadableImageError):
                    unreadable.append(str(opened))
                else:
                    indices.append(index)
                    pixels.append(opened)
            features = backbone.no_features()
            if pixels:
                filled = pixels + pixels[-1:] * (smallest - len(pixels))
                features = encode_pixels(backbone, _stack(filled, backbone.device), encode)
            yield ImageFeatures(features[: len(pixels)], tuple(indices), tuple(unreadable))


@torch.no_grad()
def encode_pixels(backbone: Backbone, pixels: Tensor, encode: Encode | None = None) -> Tensor:
    """Returns normalised features (batch, dim) of bytes (batch, height, width, 3 or 4)."""
    return normalize((encode or backbone.encode_image)(to_device(backbone, pixels)), dim=-1)


def to_device(backbone: Backbone, pixels: Tensor) -> Tensor:
    """Returns bytes (batch, height, width, 3 or 4) as the image tower takes them."""
    on_device = pixels.to(backbone.device, non_blocking=pixels.is_pinned())
    return backbone.preprocessing.normalise(on_device)


def _stack(crops: Sequence[Crop], device: torch.device) -> Tensor:
    """Returns crops as one tensor, from which a GPU copies while it still computes."""
    on_gpu = device.type == "cuda"
    pixels = torch.empty((len(crops), *crops[0].shape), dtype=torch.uint8, pin_memory=on_gpu)
    np.stack(crops, out=pixels.numpy())
    return pixels


def batch_size(device: torch.device) -> int:
    """Returns how many images go through the image tower together."""
    return GPU_BATCH if device.type == "cuda" else BATCH


@contextmanager
def decoding_threads(most: int = MOST_THREADS) -> Iterator[ThreadPoolExecutor]:
    """Yields threads that decode images; what they have not begun is given up at the end."""
    with ThreadPoolExecutor(min(most, decoders())) as threads:
        try:
            yield threads
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def decoders() -> int:
    """Returns how many images are decoded at a time: one for each core, within limits.

    `OMP_NUM_THREADS` says how many cores a process has of those that it shares with others.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    available = int(given) if given.isdecimal() else cores()
    return min(max(available, FEWEST_THREADS), MOST_THREADS)


@contextmanager
def image_warnings_off() -> Iterator[None]:
    """Silences Pillow's warnings about odd metadata."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _opened_ahead(
    threads: ThreadPoolExecutor, crops: CentreCrops, sources: Sequence[Source]
) -> Iterator[list[Opened]]:
    """Yields batches of images, while the next ones are already being opened."""
    waiting: deque[list[Future[Opened]]] = deque()
    size = batch_size(crops.backbone.device)
    for start in range(0, len(sources), size):
        batch = sources[start : start + size]
        waiting.append([threads.submit(crops.cut, source) for source in batch])
        if len(waiting) > AHEAD:
            yield [opened.result() for opened in waiting.popleft()]
    while waiting:
        yield [opened.result() for opened in waiting.popleft()]
