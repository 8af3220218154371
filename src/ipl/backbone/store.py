"""Features kept in memory, so that fits which share pictures or prompts run the towers once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ipl.backbone.clip import Backbone
from ipl.backbone.images import ImageFeatures, encode_files
from ipl.progress import SILENT, Reporter

TEXT_BYTES = 1 << 30  # what text features may take; the least recently used go first


class FeatureStore:
    """Image features by path and text features by what was asked, for one backbone."""

    def __init__(self, backbone: Backbone, text_bytes: int = TEXT_BYTES) -> None:
        self.backbone = backbone
        self.text_bytes = text_bytes
        self._images: dict[Path, Tensor | str] = {}
        self._texts: OrderedDict[Hashable, list[Tensor]] = OrderedDict()

    def encode(self, paths: Sequence[Path], reporter: Reporter = SILENT) -> ImageFeatures:
        """Returns the features of picture files, computing those not seen before."""
        new = [path for path in dict.fromkeys(paths) if path not in self._images]
        if new:
            with reporter.task("Encoding images", len(new)) as advance:
                fresh = encode_files(self.backbone, new, advance)
            reasons = iter(fresh.unreadable)
            good = dict(zip(fresh.kept, fresh.features, strict=True))
            for index, path in enumerate(new):
                self._images[path] = good[index] if index in good else next(reasons)
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
