"""Features in memory and on disk, so that fits which share images or prompts run towers once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import (
    CentreCrops,
    ImageFeatures,
    decoding_threads,
    encode_batches,
)
from ipl.datasets.images import ImageSource, open_image
from ipl.support.cache import Cache, key_of
from ipl.support.progress import SILENT, Reporter
from ipl.support.recent_values import RecentValues

TEXT_BYTES = 1 << 30  # memory for text features; the least recently used are dropped first
SMALLEST_BATCH = 16  # images; in larger batches the bits of a feature do not change
HashedFile = tuple[tuple[int, ...], str]  # what changes when the file is written, and its SHA-256
StoredImage = Path | ImageSource  # an image that can be opened again, and is a key
Feature = np.ndarray[Any, Any]  # (dim,), in fp32
FEATURE_VERSION = 6  # part of every cache key: raise it when files become other features


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
        self._hashed: dict[StoredImage, HashedFile] = {}  # what was hashed so far
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
        self._encode_new(new, reporter)
        indices, features, unreadable = [], [self.backbone.no_features()], []
        for index, path in enumerate(paths):
            stored = self._images[path]
            if isinstance(stored, str):
                unreadable.append(stored)
            else:
                indices.append(index)
                features.append(stored[None])
        return ImageFeatures(torch.cat(features), tuple(indices), tuple(unreadable))

    def hashes(
        self, images: Sequence[StoredImage], reporter: Reporter = SILENT
    ) -> list[str | None]:
        """Hash images; what was hashed before, also for the cache, is not hashed again.

        Parameters
        ----------
        images : sequence of Path or ImageSource
            The images; one may be given more than once.
        reporter : Reporter
            Receives the progress.

        Returns
        -------
        list of str or None
            The SHA-256 of each file or, of an image without a file, of its pixels; None for an
            image that cannot be read.
        """
        hashes: dict[StoredImage, str | None] = {}
        new = list(dict.fromkeys(images))
        with decoding_threads() as threads, reporter.task("Reading images", len(new)) as advance:
            for image, known in zip(new, threads.map(self._hash, new), strict=True):
                hashes[image] = known and known[1]
                advance()
        return [hashes[image] for image in images]

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
            else:
                chunks.clear()  # they would not be stored
            yield chunk
            del chunk  # before the next one is computed
        if size <= self.text_bytes:
            self._texts[key] = chunks
        while sum(c.nbytes for stored in self._texts.values() for c in stored) > self.text_bytes:
            self._texts.popitem(last=False)

    def _encode_new(self, paths: Sequence[StoredImage], reporter: Reporter) -> None:
        """Stores the features of images, from the cache or computed."""
        hashed = self._look_up(paths)
        missing = [path for path in paths if path not in self._images]
        if not missing:
            return
        batches = encode_batches(
            self.backbone,
            missing,
            SMALLEST_BATCH,  # a feature must not depend on how many images happened to be missing
            crops=self.crops if self.keeps_crops else None,
        )
        writing, remaining = [], iter(missing)
        with (
            reporter.task("Encoding images", len(missing)) as advance,
            ThreadPoolExecutor(1) as writer,  # writes features while the next ones are computed
            closing(batches),
        ):
            for found in batches:
                entries = self._store(list(islice(remaining, found.images)), found, hashed)
                writing.append(writer.submit(self._write, entries))
                advance(found.images)
        for written in writing:
            written.result()

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

        def look_up(image: StoredImage) -> _HashedFile | Tensor | None:
            if (found := self._hash(image)) is None:
                return None
            stamp, digest = found
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

    def _hash(self, image: StoredImage) -> HashedFile | None:
        """Returns what the cache knows an image by; None if it cannot be read."""
        known = self._hashed.get(image)
        if known is None or not _has_stamp(image, known[0]):
            known = _hash(image)
            if known is not None:
                self._hashed[image] = known
        return known

    def _store(
        self,
        paths: Sequence[StoredImage],
        found: ImageFeatures,
        hashed: dict[StoredImage, _HashedFile],
    ) -> dict[str, Feature]:
        """Stores the features of a batch, or why there are none.

        Returns those that are not in the cache yet, by their keys.
        """
        entries = {}
        reasons = iter(found.unreadable)
        features = dict(zip(found.indices, found.features, strict=True))
        values = dict(zip(found.indices, found.features.cpu().numpy(), strict=True))
        for index, path in enumerate(paths):
            if index not in features:
                self._images[path] = next(reasons)
                continue
            feature = features[index]
            file = hashed.get(path)
            # The feature of a file rewritten between hashing and encoding must not get the old key.
            if file is not None and _has_stamp(path, file.stamp):
                key = file.key
                if key not in self._by_key:
                    entries[key] = values[index]
                # Copies of one file get one feature: in another batch its last bits may differ.
                feature = self._by_key.setdefault(key, feature)
            self._images[path] = feature
        return entries

    def _write(self, entries: Mapping[str, Feature]) -> None:
        """Writes features to the cache."""
        for key, feature in entries.items():
            assert self.cache is not None
            self.cache.put("images", key, {"feature": feature}, {})


def _hash(image: StoredImage) -> HashedFile | None:
    try:
        if isinstance(image, Path):
            return hash_file(image)
        pixels = open_image(image)  # no file of its own, so its pixels are hashed
    except (OSError, ValueError):  # encode_batches will say why
        return None
    return (), hashlib.sha256(f"pixels {pixels.size}".encode() + pixels.tobytes()).hexdigest()


def _has_stamp(image: StoredImage, stamp: tuple[int, ...]) -> bool:
    """Returns whether a file has not been written since it had this stamp."""
    try:
        return not isinstance(image, Path) or _stamp_of(image) == stamp
    except (OSError, ValueError):
        return False


def hash_file(path: Path) -> HashedFile:
    """Returns what changes when a file is written, and the SHA-256 of its content.

    Raises OSError, or ValueError if it is not a regular file.
    """
    stamp, digest = _stamp_of(path), hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return stamp, digest.hexdigest()


def _stamp_of(path: Path) -> tuple[int, ...]:
    """Returns what changes when a file is written; raises as `hash_file` does."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a device may have no end
        raise ValueError(f"{path} is not a regular file")
    return status.st_mtime_ns, status.st_size, status.st_ino
