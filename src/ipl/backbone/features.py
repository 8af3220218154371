"""Image files to features: decoded in threads, encoded in batches, each computed once."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.datasets.images import ImageSource, UnreadableImageError, open_image
from ipl.support.cache import Cache, key_of
from ipl.support.machine import cores
from ipl.support.progress import SILENT, Reporter
from ipl.support.recent_values import RecentValues

Source = Path | ImageSource  # an image that can be opened again, and is a key
Crop = np.ndarray[Any, Any]  # bytes (height, width, 3)
Encode = Callable[[Tensor], Tensor]  # normalised pixels (batch, 3, h, w) to features (batch, dim)

BATCH, GPU_BATCH = 64, 128  # images that go through the image tower together
SMALLEST_BATCH = 16  # images; in larger batches the bits of a feature do not change
AHEAD = 4  # batches that are opened while one is encoded
FEWEST_THREADS, MOST_THREADS = 4, 16  # that decode images
TEXT_BYTES = 1 << 30  # memory for text features
FEATURE_VERSION = 6  # part of every cache key: raise it when files become other features


@dataclass(frozen=True)
class ImageFeatures:
    """Normalised features of the readable images, and why the others could not be read."""

    features: Tensor  # (readable, dim)
    indices: tuple[int, ...]  # of the image that each feature belongs to, among those given
    unreadable: tuple[str, ...]  # a reason for each image that is not among the indices

    @classmethod
    def of(cls, backbone: Backbone, results: Sequence[Tensor | str]) -> ImageFeatures:
        """The features of images, from the feature of each or why there is none."""
        features, indices, unreadable = [backbone.no_features()], list[int](), list[str]()
        for index, result in enumerate(results):
            if isinstance(result, str):
                unreadable.append(result)
            else:
                indices.append(index)
                features.append(result[None])
        return cls(torch.cat(features), tuple(indices), tuple(unreadable))


# -- decoding -------------------------------------------------------------------------------------


def crop(backbone: Backbone, source: Source) -> Crop:
    """The centre of an image, as large as the backbone sees it."""
    return backbone.preprocessing.evaluate(open_image(source))


class CentreCrops:
    """Opens images and cuts their centres, and remembers so many bytes of them.

    Learners that prompt images encode the same images again after every training.
    """

    def __init__(self, backbone: Backbone, memory: int = 0) -> None:
        self.backbone, self.memory = backbone, memory
        self._crops: dict[Source, Crop] = {}
        self._lock = threading.Lock()

    def cut(self, source: Source) -> Crop | UnreadableImageError:
        """The crop of an image, or why it cannot be read."""
        if (known := self._crops.get(source)) is not None:
            return known
        try:
            pixels = crop(self.backbone, source)
        except UnreadableImageError as error:
            return error
        with self._lock:
            if pixels.nbytes <= self.memory and source not in self._crops:
                self._crops[source] = pixels
                self.memory -= pixels.nbytes
        return pixels


@contextmanager
def decoding_threads(most: int = MOST_THREADS) -> Iterator[ThreadPoolExecutor]:
    """Yields threads that decode images; what they have not begun is given up at the end.

    There is one for each core, within limits. `OMP_NUM_THREADS` says how many cores a process has
    of those that it shares with others.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    available = int(given) if given.isdecimal() else cores()
    with ThreadPoolExecutor(min(max(available, FEWEST_THREADS), MOST_THREADS, most)) as threads:
        try:
            yield threads
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


@contextmanager
def image_warnings_off() -> Iterator[None]:
    """Silences Pillow's warnings about odd metadata."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


# -- encoding -------------------------------------------------------------------------------------


def encode_files(
    backbone: Backbone,
    sources: Sequence[Source],
    encode: Encode | None = None,
    crops: CentreCrops | None = None,
) -> ImageFeatures:
    """The features of images, in the order given.

    `encode` takes the place of the frozen image tower; `crops` remembers images that need not be
    opened again.
    """
    batches = encode_batches(backbone, sources, encode, crops)
    return ImageFeatures.of(backbone, [result for batch in batches for result in batch])


def encode_batches(
    backbone: Backbone,
    sources: Sequence[Source],
    encode: Encode | None = None,
    crops: CentreCrops | None = None,
) -> Generator[list[Tensor | str], None, None]:
    """Yields the feature (dim,) of each image of a batch, or why it has none.

    Meanwhile the images of the next batches are being opened.
    """
    crops, size = crops or CentreCrops(backbone), batch_size(backbone.device)
    waiting: deque[list[Future[Crop | UnreadableImageError]]] = deque()
    with image_warnings_off(), decoding_threads() as threads:
        # At the end come empty batches, which push out those that wait.
        for start in range(0, len(sources) + AHEAD * size, size):
            batch = sources[start : start + size]
            waiting.append([threads.submit(crops.cut, source) for source in batch])
            if len(waiting) > AHEAD:
                opened = [each.result() for each in waiting.popleft()]
                yield _encode_opened(backbone, opened, encode)


def _encode_opened(
    backbone: Backbone, opened: Sequence[Crop | UnreadableImageError], encode: Encode | None
) -> list[Tensor | str]:
    crops = [each for each in opened if not isinstance(each, UnreadableImageError)]
    features = iter(backbone.no_features())
    if crops:
        # Matrix products of a few rows take other paths through a processor, which changes the last
        # bits of a feature: a small batch is filled up.
        crops += crops[-1:] * (SMALLEST_BATCH - len(crops))
        # In pinned memory, from which a GPU copies while it still computes.
        on_gpu = backbone.device.type == "cuda"
        pixels = torch.empty((len(crops), *crops[0].shape), dtype=torch.uint8, pin_memory=on_gpu)
        np.stack(crops, out=pixels.numpy())
        features = iter(encode_pixels(backbone, pixels, encode))
    return [
        str(each) if isinstance(each, UnreadableImageError) else next(features) for each in opened
    ]


@torch.no_grad()
def encode_pixels(backbone: Backbone, pixels: Tensor, encode: Encode | None = None) -> Tensor:
    """Normalised features (batch, dim) of bytes (batch, height, width, 3 or 4)."""
    return normalize((encode or backbone.encode_image)(to_device(backbone, pixels)), dim=-1)


def to_device(backbone: Backbone, pixels: Tensor) -> Tensor:
    """Bytes (batch, height, width, 3 or 4) as the image tower takes them."""
    on_device = pixels.to(backbone.device, non_blocking=pixels.is_pinned())
    return backbone.preprocessing.normalise(on_device)


def batch_size(device: torch.device) -> int:
    """How many images go through the image tower together."""
    return GPU_BATCH if device.type == "cuda" else BATCH


# -- stored features ------------------------------------------------------------------------------


class FeatureStore:
    """Image and text features of one backbone, so that fits which share them run towers once.

    Image features are stored under hashes of the images' content, so that copies of a file have
    one feature, and a changed file another.
    """

    def __init__(
        self,
        backbone: Backbone,
        cache: Cache | None = None,  # keeps image features on disk
        text_bytes: int = TEXT_BYTES,  # the least recently used text features are dropped first
        crop_bytes: int = 0,  # memory for centre crops, if a later fit prompts images
    ) -> None:
        self.backbone = backbone
        self.cache = cache
        self.text_bytes = text_bytes
        self.crops = CentreCrops(backbone, crop_bytes)
        self.views = RecentValues()  # the crops that trainings have seen, and their features
        self._features: dict[str | None, Tensor] = {}  # by the hash of the image
        self._hashes: dict[tuple[Any, ...], str] = {}  # by the image, and the time of its file
        self._texts = RecentValues()  # lists of chunks

    def encode(self, images: Sequence[Source], reporter: Reporter = SILENT) -> ImageFeatures:
        """The features of images, computing only those that are not stored yet."""
        distinct = list(dict.fromkeys(images))
        with decoding_threads() as threads:
            hashes = dict(zip(distinct, threads.map(self._look_up, distinct), strict=True))
        new = [image for image in distinct if hashes[image] not in self._features]
        computed: dict[Source, Tensor | str] = {}
        if new:
            remaining, batches = iter(new), encode_batches(self.backbone, new, crops=self.crops)
            with reporter.task("Encoding images", len(new)) as advance, closing(batches):
                for batch in batches:
                    for result, image in zip(batch, remaining, strict=False):
                        computed[image] = result
                        if not isinstance(result, str):
                            computed[image] = self._keep(image, hashes[image], result)
                    advance(len(batch))
        results = [
            computed[image] if image in computed else self._features[hashes[image]]
            for image in images
        ]
        return ImageFeatures.of(self.backbone, results)

    def _look_up(self, image: Source) -> str | None:
        """The hash of an image, whose feature is taken from the cache if it is there."""
        digest = self._hash(image)
        if self.cache is None or digest is None or digest in self._features:
            return digest
        entry = self.cache.get("images", self._key(digest))
        feature = np.zeros(0) if entry is None else entry.arrays.get("feature", np.zeros(0))
        fits = feature.shape == (self.backbone.feature_dim,) and feature.dtype == "float32"
        if fits and np.isfinite(feature).all():
            self._features[digest] = torch.from_numpy(feature).to(self.backbone.device)
        return digest

    def _keep(self, image: Source, digest: str | None, feature: Tensor) -> Tensor:
        """Stores a feature; returns that of an earlier copy of the image instead.

        In another batch the last bits of the copy's feature may differ.
        """
        # A file that was written again meanwhile must not get the earlier hash's key.
        if digest is None or digest != self._hash(image):
            return feature
        if digest not in self._features:
            self._features[digest] = feature
            if self.cache is not None:
                arrays = {"feature": feature.cpu().numpy()}
                self.cache.put("images", self._key(digest), arrays, {})
        return self._features[digest]

    def hashes(self, images: Sequence[Source], reporter: Reporter = SILENT) -> list[str | None]:
        """The SHA-256 of each file or, of an image without a file, of its pixels.

        None stands for an image that cannot be read. What was hashed before is not hashed again.
        """
        new = list(dict.fromkeys(images))
        hashes: dict[Source, str | None] = {}
        with decoding_threads() as threads, reporter.task("Reading images", len(new)) as advance:
            for image, found in zip(new, threads.map(self._hash, new), strict=True):
                hashes[image] = found
                advance()
        return [hashes[image] for image in images]

    def texts(self, key: Hashable, run: Callable[[], Iterable[Tensor]]) -> Iterator[Tensor]:
        """Yields text features chunk by chunk, from memory or from `run`, which computes them.

        The key has everything that decides the features.
        """
        if (known := self._texts.get(key)) is not None:
            yield from known
            return
        chunks, size = list[Tensor](), 0
        for chunk in run():
            size += chunk.nbytes
            if size <= self.text_bytes:
                chunks.append(chunk)
            else:
                chunks.clear()  # they would not be stored
            yield chunk
            del chunk  # before the next one is computed
        if size <= self.text_bytes:
            self._texts.get_or_make(key, lambda: chunks, size, self.text_bytes)

    def _key(self, digest: str) -> str:
        return key_of(
            version=FEATURE_VERSION,
            file=digest,
            backbone=self.backbone.fingerprint,
            device=self.backbone.device.type,
            arithmetic=str(self.backbone.dtype),
        )

    def _hash(self, image: Source) -> str | None:
        """The SHA-256 of a file or of an image's pixels; None if it cannot be read.

        It is computed again if the file has changed since.
        """
        try:
            if isinstance(image, Path):
                status = os.stat(image)
                key: tuple[Any, ...] = (image, status.st_mtime_ns, status.st_size, status.st_ino)
                if key not in self._hashes:
                    self._hashes[key] = hash_file(image)
            else:
                key = (image,)
                if key not in self._hashes:
                    pixels = open_image(image)
                    text = f"pixels {pixels.size}".encode() + pixels.tobytes()
                    self._hashes[key] = hashlib.sha256(text).hexdigest()
        except (OSError, ValueError):  # encode_batches will say why
            return None
        return self._hashes[key]


def hash_file(path: Path) -> str:
    """The SHA-256 of a file; raises ValueError if it is not a regular file."""
    if not path.is_file():  # a device may have no end
        raise ValueError(f"{path} is not a regular file")
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
