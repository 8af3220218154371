"""The disk cache: results stored under hashes of everything that they were computed from.

An entry is the safetensors file `FOLDER/KIND/first two hex digits/KEY`, with its facts as JSON in
the metadata. One that cannot be read counts as missing, and a folder that cannot be written causes
a warning, never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from ipl.support.errors import IplError
from ipl.support.files import TEMPORARY, write_bytes
from ipl.support.progress import SILENT, Reporter

KINDS = ("images", "selections", "trainings")
KEY = re.compile(r"[0-9a-f]{64}")


class CacheEntry(NamedTuple):
    """What is stored under one key."""

    arrays: dict[str, np.ndarray[Any, Any]]
    facts: dict[str, Any]  # JSON values


def cache_folder() -> Path:
    """Returns $IPL_CACHE, $XDG_CACHE_HOME/ipl or ~/.cache/ipl."""
    if folder := os.environ.get("IPL_CACHE"):
        return Path(os.path.expanduser(folder))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore relative paths
        base = os.path.expanduser("~/.cache")
    return Path(base) / "ipl"


def key_of(**parts: Any) -> str:
    """The key of an entry: a hash of JSON values, everything that decides the result."""
    return hashlib.sha256(_json(parts).encode("ascii")).hexdigest()


class Cache:
    """A folder of entries, each stored under a kind (one of `KINDS`) and a key.

    The folder is `cache_folder()` unless given, and is created by the first `put`. The reporter
    warns of damaged entries and of a folder that cannot be written.
    """

    def __init__(self, folder: Path | None = None, reporter: Reporter = SILENT) -> None:
        # Absolute, so that a change of the working folder does not move the cache.
        self.folder = (cache_folder() if folder is None else folder).absolute()
        self.reporter = reporter
        self._writing = True

    def get(self, kind: str, key: str) -> CacheEntry | None:
        """An entry, None if there is none; one that cannot be read is removed."""
        path = self._path(kind, key)
        try:
            with safe_open(path, "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                facts = json.loads(file.metadata()["facts"])
            if not isinstance(facts, dict):
                raise ValueError("facts must be an object")
            return CacheEntry(arrays, facts)
        except Exception:  # damaged bytes make the readers raise almost anything
            if path.is_file():  # otherwise there is none, or another process cleared the cache
                self.drop(kind, key)
                self.reporter.warn(f"The cache entry {path} is damaged; it is computed again.")
            return None

    def put(
        self,
        kind: str,
        key: str,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        facts: Mapping[str, Any],
    ) -> None:
        """Stores arrays and JSON values; after a write that failed, nothing more is stored."""
        if not self._writing:
            return
        # safetensors reads memory as if it were contiguous
        contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = save(contiguous, {"facts": _json(facts)})
        try:
            write_bytes(self._path(kind, key), data, sync=False)  # can be computed again
        except IplError as error:
            self._writing = False
            self.reporter.warn(f"{error} The work continues, but the cache stores nothing more.")

    def has(self, kind: str, key: str) -> bool:
        return os.path.isfile(self._path(kind, key))

    def drop(self, kind: str, key: str) -> None:
        with suppress(OSError):
            self._path(kind, key).unlink()

    def expire(self, kind: str, seconds: float) -> None:
        """Removes the entries of a kind that were written more than so many seconds ago."""
        for path in self.files(kind):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - seconds:
                    path.unlink()

    def usage(self) -> dict[str, tuple[int, int]]:
        """The number of entries and their bytes, by kind."""
        sizes = {kind: [_size(path) for path in self.files(kind)] for kind in KINDS}
        return {kind: (len(each), sum(each)) for kind, each in sizes.items()}

    def clear(self) -> tuple[int, int]:
        """Removes all entries and leftovers of interrupted writes; other files stay.

        Returns the number of entries and their size in bytes.
        """
        entries = [path for kind in KINDS for path in self.files(kind)]
        size = sum(map(_size, entries))
        left = [path for kind in KINDS for path in self.folder.glob(f"{kind}/??/.*{TEMPORARY}")]
        for path in (*entries, *left):
            try:
                path.unlink(missing_ok=True)  # another process may have removed it
            except OSError as error:
                raise IplError(f"Cannot remove {path}: {error.strerror}.") from error
        return len(entries), size

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def files(self, kind: str) -> list[Path]:
        """The files that are named like entries."""
        found = (self.folder / kind).glob("??/*")
        return [path for path in found if KEY.fullmatch(path.name) and path.is_file()]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _json(value: Mapping[str, Any]) -> str:
    """The one JSON text of JSON values; raises TypeError or ValueError for any others."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
