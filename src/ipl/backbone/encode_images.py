"""Turns image files into image features, in batches; unreadable files are set aside."""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
Crop = np.ndarray[Any, Any]  # bytes (height, width, 3)


def open_source(source: Source) -> Image.Image:
    """Returns an image upright and in RGB."""
    if isinstance(source, Image.Image):
        given = source
        source = ImageSource("image", lambda: given)
    return open_image(source)


def crop(backbone: Backbone, source: Source, stream: random.Random | None = None) -> Crop:
    """Returns an image's centre or, with a stream, a random crop."""
    return backbone.preprocessing.crop_of(open_source(source), stream)


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

    def kept(self, source: Source) -> Crop | None:
        """Returns the crop of an image if it is in memory."""
        return self._kept.get(source) if self._kept else None

    def cut(self, source: Source) -> Crop:
        """Returns the crop of an image from its file; raises UnreadableImageError if it cannot."""
        pixels = crop(self.backbone, source)
        with self._lock:
            if pixels.nbytes <= self.room and source not in self._kept:
                self._kept[source] = pixels
                self.room -= pixels.nbytes
        return pixels


def encode_files(
    backbone: Backbone,
    sources: Sequence[Source],
    advance: Callable[..., None] | None = None,
    smallest_batch: int = 1,
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
    smallest_batch : int, default=1
        A smaller batch is filled up to this number of images: matrix products of a few rows take
        other paths through a processor, which changes the last bits of a feature.
    encode : callable, optional
        Takes the place of the frozen image tower.
    crops : CentreCrops, optional
        Has crops of images that need not be opened again, and keeps others.

    Returns
    -------
    ImageFeatures
        Normalised features of the readable images, in the order given.
    """
    crops = crops or CentreCrops(backbone)

    def load(source: Source) -> Crop | UnreadableImageError:
        try:
            return crops.cut(source)
        except UnreadableImageError as error:
            return error

    features, indices, unreadable = [], [], []
    with image_warnings_off(), decoding_threads() as threads:
        for batch in _opened_ahead(threads, load, crops, sources):
            pixels = []
            for index, opened in batch:
                result = opened.result() if isinstance(opened, Future) else opened
                if isinstance(result, UnreadableImageError):
                    unreadable.append(str(result))
                else:
                    pixels.append(result)
                    indices.append(index)
            if pixels:
                filled = pixels + pixels[-1:] * (smallest_batch - len(pixels))
                batch_features = encode_pixels(backbone, _stack(filled, backbone.device), encode)
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
    on_device = pixels.to(backbone.device, non_blocking=pixels.is_pinned())
    return backbone.preprocessing.normalise(on_device)


def _stack(crops: Sequence[Crop], device: torch.device) -> Tensor:
    """Returns crops as one tensor, from which a GPU copies while it still computes."""
    on_gpu = device.type == "cuda"
    pixels = torch.empty((len(crops), *crops[0].shape), dtype=torch.uint8, pin_memory=on_gpu)
    np.stack(crops, out=pixels.numpy())
    return pixels


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


def _opened_ahead(
    threads: ThreadPoolExecutor,
    load: Callable[[Source], Crop | UnreadableImageError],
    crops: CentreCrops,
    sources: Sequence[Source],
) -> Iterator[list[tuple[int, Crop | Future[Crop | UnreadableImageError]]]]:
    """Yields batches of images with their indices, while the next one is already being opened."""
    waiting = None
    for batch in _batches(enumerate(sources)):
        found = [(index, crops.kept(source), source) for index, source in batch]
        opened = [
            (index, threads.submit(load, source) if crop is None else crop)
            for index, crop, source in found
        ]
        if waiting is not None:
            yield waiting
        waiting = opened
    if waiting is not None:
        yield waiting


def _batches(indexed: Iterator[tuple[int, Source]]) -> Iterator[list[tuple[int, Source]]]:
    while batch := list(islice(indexed, BATCH)):
        yield batch
