"""Features in memory and on disk, so that fits which share images or prompts run towers once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import (
    BATCH,
    CentreCrops,
    ImageFeatures,
    decoding_threads,
    encode_files,
)
from ipl.datasets.images import ImageSource, open_image
from ipl.support.cache import Cache, key_of
from ipl.support.progress import SILENT, Reporter
from ipl.support.recent_values import RecentValues

TEXT_BYTES = 1 << 30  # memory for text features; the least recently used are dropped first
STEP = 16 * BATCH  # images between two writes to the cache, in case the rest is interrupted
SMALLEST_BATCH = 16  # images; in larger batches the bits of a feature do not change
StoredImage = Path | ImageSource  # an image that can be opened again, and is a key
FEATURE_VERSION = 4  # part of every cache key: raise it when files become other features


@dataclass(frozen=True)
class _HashedFile:
    """The cache key of an image file, and the file's state when it was hashed."""

    key: str
    stamp: tuple[int, ...]


class FeatureStore:
    """Image and text features of one backbone, each computed once.

    `kept` is for what else fits that share a store need not make again.

    Parameters
    ----------
    backbone : Backbone
        The model that computes the features.
    cache : Cache, optional
        Keeps image features on disk too, under hashes of the files' content.
    text_bytes : int, default=2**30
        Memory for text features; the least recently used are dropped first.
    crop_bytes : int, default=0
        Memory for centre crops, for learners that prompt images: they encode an image again after
        every training.
    keeps_crops : bool, default=False
        Whether a later fit prompts images: crops that are cut for their features are then kept.
    """

    def __init__(
        self,
        backbone: Backbone,
        cache: Cache | None = None,
        text_bytes: int = TEXT_BYTES,
        crop_bytes: int = 0,
        keeps_crops: bool = False,
    ) -> None:
        self.backbone = backbone
        self.cache = cache
        self.text_bytes = text_bytes
        self.crops = CentreCrops(backbone, crop_bytes)
        self.keeps_crops = keeps_crops
        self.kept = RecentValues()
        self._images: dict[StoredImage, Tensor | str] = {}  # a feature, or why there is none
        self._by_key: dict[str, Tensor] = {}  # features computed and written by this store
        self._texts: OrderedDict[Hashable, list[Tensor]] = OrderedDict()

    def encode(self, paths: Sequence[StoredImage], reporter: Reporter = SILENT) -> ImageFeatures:
        """Encode images, computing only the features that are not stored yet.

        Parameters
        ----------
        paths : sequence of Path or ImageSource
            The images; one may be given more than once.
        reporter : Reporter, optional
            Shows progress.

        Returns
        -------
        ImageFeatures
            Normalised features of the readable images, in the order given.
        """
        new = [path for path in dict.fromkeys(paths) if path not in self._images]
        hashed = self._look_up(new)
        missing = [path for path in new if path not in self._images]
        if missing:
            with reporter.task("Encoding images", len(missing)) as advance:
                for start in range(0, len(missing), STEP):
                    self._compute(missing[start : start + STEP], hashed, advance)
        indices, features, unreadable = [], [self.backbone.no_features()], []
        for index, path in enumerate(paths):
            stored = self._images[path]
            if isinstance(stored, str):
                unreadable.append(stored)
            else:
                indices.append(index)
                features.append(stored[None])
        return ImageFeatures(torch.cat(features), tuple(indices), tuple(unreadable))

    def texts(self, key: Hashable, run: Callable[[], Iterable[Tensor]]) -> Iterator[Tensor]:
        """Compute text features chunk by chunk, or take them from memory.

        Parameters
        ----------
        key : hashable
            Everything that decides the features.
        run : callable
            Returns the chunks; called only if `key` is not stored.

        Yields
        ------
        Tensor
            The chunks of features.
        """
        if key in self._texts:
            self._texts.move_to_end(key)
            yield from self._texts[key]
            return
        chunks, size = [], 0
        for chunk in run():
            size += chunk.nbytes
            if size <= self.text_bytes:
                chunks.append(chunk)
            yield chunk
        if size <= self.text_bytes:
            self._texts[key] = chunks
        while sum(c.nbytes for stored in self._texts.values() for c in stored) > self.text_bytes:
            self._texts.popitem(last=False)

    def _look_up(self, paths: Sequence[StoredImage]) -> dict[StoredImage, _HashedFile]:
        """Stores what the cache has of these images; returns the keys of the others."""
        cache = self.cache
        if cache is None or not paths:
            return {}
        backbone = self.backbone
        shape = (backbone.feature_dim,)
        parts = {
            "way": FEATURE_VERSION,
            "backbone": backbone.fingerprint,
            "device": backbone.device.type,
            "arithmetic": str(backbone.dtype),
        }

        def look_up(path: StoredImage) -> _HashedFile | Tensor | None:
            try:
                stamp, digest = _stamp(path), _sha256(path)
            except (OSError, ValueError):  # encode_files will say why
                return None
            key = key_of(file=digest, **parts)
            entry = cache.get("images", key)
            feature = None if entry is None else entry.arrays.get("feature")
            if feature is None or feature.shape != shape or feature.dtype != "float32":
                return _HashedFile(key, stamp)
            return torch.from_numpy(feature).to(backbone.device)

        hashed = {}
        with decoding_threads() as threads:
            for path, result in zip(paths, threads.map(look_up, paths), strict=True):
                if isinstance(result, Tensor):
                    self._images[path] = result
                elif result is not None:
                    hashed[path] = result
        return hashed

    def _compute(
        self,
        paths: Sequence[StoredImage],
        hashed: dict[StoredImage, _HashedFile],
        advance: Callable[..., None],
    ) -> None:
        """Runs the image tower and stores its features, or why there are none."""
        images = encode_files(
            self.backbone,
            paths,
            advance,
            # A feature must not depend on how many images happened to be missing.
            smallest_batch=SMALLEST_BATCH,
            crops=self.crops if self.keeps_crops else None,
        )
        reasons = iter(images.unreadable)
        features = dict(zip(images.indices, images.features, strict=True))
        values = dict(zip(images.indices, images.features.cpu().numpy(), strict=True))
        for index, path in enumerate(paths):
            if index not in features:
                self._images[path] = next(reasons)
                continue
            feature = features[index]
            if self.cache is not None and _unchanged(path, hashed.get(path)):
                key = hashed[path].key
                if key not in self._by_key:
                    self.cache.put("images", key, {"feature": values[index]}, {})
                # Copies of one file get one feature: in another batch its last bits may differ.
                feature = self._by_key.setdefault(key, feature)
            self._images[path] = feature


def _stamp(path: StoredImage) -> tuple[int, ...]:
    """Returns what changes when a file is written; raises ValueError if it is not a regular one."""
    if isinstance(path, ImageSource):
        return ()
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a device may have no end
        raise ValueError(f"{path} is not a regular file")
    return status.st_mtime_ns, status.st_size, status.st_ino


def _sha256(path: StoredImage) -> str:
    digest = hashlib.sha256()
    if isinstance(path, ImageSource):  # no file of its own, so its pixels are hashed
        image = open_image(path)
        digest.update(f"pixels {image.size}".encode() + image.tobytes())
        return digest.hexdigest()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _unchanged(path: StoredImage, hashed: _HashedFile | None) -> bool:
    # The feature of a file rewritten between hashing and encoding must not get the old hash.
    try:
        return hashed is not None and _stamp(path) == hashed.stamp
    except (OSError, ValueError):
        return False
