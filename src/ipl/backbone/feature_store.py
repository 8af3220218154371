"""Features kept in memory, so that fits which share images or prompts run the towers once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ipl.backbone.clip import Backbone
from ipl.backbone.encode_images import BATCH, THREADS, ImageFeatures, encode_files
from ipl.datasets.images import ImageSource, open_image
from ipl.support.cache import Cache, key_of
from ipl.support.progress import SILENT, Reporter

TEXT_BYTES = 1 << 30  # what text features may take; the least recently used go first
STEP = 16 * BATCH  # images after which features are kept, should the rest be interrupted
FILLED = 16  # images in the smallest batch; in larger ones their bits were seen not to change
Held = Path | ImageSource  # what stays where it is until it is asked for
WAY = 1  # how a file becomes a feature; another number when that changes


@dataclass(frozen=True)
class _Hashed:
    """An image file as it was when it was hashed."""

    key: str
    stamp: tuple[int, ...]


class FeatureStore:
    """Image features by path and text features by what was asked, for one backbone.

    With a cache, image features are also kept on disk, by the content of the files.
    """

    def __init__(
        self, backbone: Backbone, cache: Cache | None = None, text_bytes: int = TEXT_BYTES
    ) -> None:
        self.backbone = backbone
        self.cache = cache
        self.text_bytes = text_bytes
        self._images: dict[Held, Tensor | str] = {}
        self._by_key: dict[str, Tensor] = {}  # computed here and kept on disk
        self._texts: OrderedDict[Hashable, list[Tensor]] = OrderedDict()

    def encode(self, paths: Sequence[Held], reporter: Reporter = SILENT) -> ImageFeatures:
        """Returns the features of image files, computing those not seen before."""
        new = [path for path in dict.fromkeys(paths) if path not in self._images]
        hashed = self._look_up(new)
        missing = [path for path in new if path not in self._images]
        if missing:
            with reporter.task("Encoding images", len(missing)) as advance:
                for start in range(0, len(missing), STEP):
                    self._compute(missing[start : start + STEP], hashed, advance)
        kept, features, unreadable = [], [self.backbone.no_features()], []
        for index, path in enumerate(paths):
            known = self._images[path]
            if isinstance(known, str):
                unreadable.append(known)
            else:
                kept.append(index)
                features.append(known[None])
        return ImageFeatures(torch.cat(features), tuple(kept), tuple(unreadable))

    def texts(self, key: Hashable, run: Callable[[], Iterable[Tensor]]) -> Iterator[Tensor]:
        """Yields the chunks of text features that `run` yields, or those kept under `key`."""
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
        while sum(c.nbytes for kept in self._texts.values() for c in kept) > self.text_bytes:
            self._texts.popitem(last=False)

    def _look_up(self, paths: Sequence[Held]) -> dict[Held, _Hashed]:
        """Takes what the cache has of these images; returns the hashes of the other files."""
        cache = self.cache
        if cache is None or not paths:
            return {}
        backbone = self.backbone
        shape = (backbone.feature_dim,)
        parts = {
            "way": WAY,
            "backbone": backbone.fingerprint,
            "device": backbone.device.type,
            "arithmetic": str(backbone.dtype),
        }

        def look(path: Held) -> _Hashed | Tensor | None:
            try:
                stamp, digest = _stamp(path), _sha256(path)
            except (OSError, ValueError):  # encode_files will say why
                return None
            key = key_of(file=digest, **parts)
            entry = cache.get("images", key)
            feature = None if entry is None else entry.arrays.get("feature")
            if feature is None or feature.shape != shape or feature.dtype != "float32":
                return _Hashed(key, stamp)
            return torch.from_numpy(feature).to(backbone.device)

        hashed = {}
        with ThreadPoolExecutor(THREADS) as threads:
            for path, seen in zip(paths, threads.map(look, paths), strict=True):
                if isinstance(seen, Tensor):
                    self._images[path] = seen
                elif seen is not None:
                    hashed[path] = seen
        return hashed

    def _compute(
        self, paths: Sequence[Held], hashed: dict[Held, _Hashed], advance: Callable[..., None]
    ) -> None:
        """Runs the image tower and keeps its features, or why there are none."""
        # A feature must not depend on how many images happened to be missing.
        fresh = encode_files(self.backbone, paths, advance, least=FILLED)
        reasons = iter(fresh.unreadable)
        good = dict(zip(fresh.kept, fresh.features, strict=True))
        for index, path in enumerate(paths):
            if index not in good:
                self._images[path] = next(reasons)
                continue
            feature = good[index]
            if self.cache is not None and _unchanged(path, hashed.get(path)):
                key = hashed[path].key
                if key not in self._by_key:
                    self.cache.put("images", key, {"feature": feature.cpu().numpy()}, {})
                # Copies of one file get one feature: in another batch its last bits may differ.
                feature = self._by_key.setdefault(key, feature)
            self._images[path] = feature


def _stamp(path: Held) -> tuple[int, ...]:
    """Returns what changes when a file is written; raises ValueError if it is no plain file."""
    if isinstance(path, ImageSource):
        return ()
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a device may have no end
        raise ValueError(f"{path} is no plain file")
    return status.st_mtime_ns, status.st_size, status.st_ino


def _sha256(path: Held) -> str:
    digest = hashlib.sha256()
    if isinstance(path, ImageSource):  # it has no file of its own, so its pixels tell it
        image = open_image(path)
        digest.update(f"pixels {image.size}".encode() + image.tobytes())
        return digest.hexdigest()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _unchanged(path: Held, hashed: _Hashed | None) -> bool:
    # A file written anew between hashing and encoding must not lend its feature to the old hash.
    try:
        return hashed is not None and _stamp(path) == hashed.stamp
    except (OSError, ValueError):
        return False
