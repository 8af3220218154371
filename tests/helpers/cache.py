"""What the tests of the cache share: an entry to keep, and where and how it is kept."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ipl.support.cache import Cache, CacheEntry, key_of
from ipl.support.progress import Reporter

KEY = key_of(of="a test")
PART = KEY[:2]
ARRAYS = {"feature": np.arange(512, dtype=np.float32)}
FACTS = {"words": ["furry", "é"], "loss": 0.1}


class Ear(Reporter):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.heard: list[str] = []

    def warn(self, message: str) -> None:
        self.heard.append(message)


def entry_path(cache: Cache, key: str = KEY, kind: str = "images") -> Path:
    return cache.folder / kind / key[:2] / key


def sealed(payload: bytes, version: bytes = b"1") -> bytes:
    """Returns an entry whose checksum is right, whatever it holds."""
    return b"ipl-cache %b %b\n%b" % (version, hashlib.sha256(payload).hexdigest().encode(), payload)


def same(entry: CacheEntry | None, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> bool:
    assert entry is not None
    assert entry.facts == facts
    assert set(entry.arrays) == set(arrays)
    for name, array in arrays.items():
        assert entry.arrays[name].dtype == array.dtype
        assert entry.arrays[name].shape == array.shape
        assert entry.arrays[name].tobytes() == array.tobytes()
    return True


def refuse(path: Any, *_: Any, **__: Any) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))
