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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ipl.support.errors import IplError
from ipl.support.files import TEMPORARY, write_bytes
from ipl.support.progress import SILENT, Reporter

KINDS = ("images", "words", "selections", "trainings")
KEY = re.compile(r"[0-9a-f]{64}")
# Exceptions from reading a file that is not an entry.
UNREADABLE = (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True)
class CacheEntry:
    """What is stored under one key."""

    arrays: dict[str, np.ndarray[Any, Any]]
    facts: dict[str, Any]  # JSON values


class CacheListing(NamedTuple):
    """One entry of a listing, without its arrays."""

    key: str
    path: Path
    bytes: int
    facts: dict[str, Any]  # empty if the entry cannot be read


def cache_folder() -> Path:
    """Returns the folder of the cache: $IPL_CACHE, $XDG_CACHE_HOME/ipl or ~/.cache/ipl."""
    if folder := os.environ.get("IPL_CACHE"):
        return Path(os.path.expanduser(folder))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore relative paths
        base = os.path.expanduser("~/.cache")
    return Path(base) / "ipl"


def key_of(**parts: Any) -> str:
    """Returns the key of an entry: a hash of JSON values, everything that decides the result."""
    return hashlib.sha256(_json(parts).encode("ascii")).hexdigest()


class Cache:
    """A folder of entries, each stored under a kind (one of `KINDS`) and a key.

    The folder need not exist; it is created by the first `put`.

    Parameters
    ----------
    folder : Path, optional
        The cache's folder; by default `cache_folder()`.
    reporter : Reporter, optional
        Shows warnings about damaged entries and a folder that cannot be written.
    """

    def __init__(self, folder: Path | None = None, reporter: Reporter = SILENT) -> None:
        # Absolute, so that a change of the working folder does not move the cache.
        self.folder = (cache_folder() if folder is None else folder).absolute()
        self.reporter = reporter
        self._writing = True

    def get(self, kind: str, key: str) -> CacheEntry | None:
        """Returns an entry, None if there is none; one that cannot be read is removed."""
        path = self._path(kind, key)
        try:
            with safe_open(path, "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return CacheEntry(arrays, _facts(file))
        except UNREADABLE:
            if path.is_file():  # otherwise there is none, or another process cleared the cache
                with suppress(OSError):
                    path.unlink()
                self.reporter.warn(f"The cache entry {path} is damaged; it is computed again.")
            return None

    def put(
        self,
        kind: str,
        key: str,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        facts: Mapping[str, Any],
    ) -> None:
        """Stores arrays and JSON values, in place of an existing entry.

        A folder that cannot be written causes one warning, and nothing more is stored.
        """
        path = self._path(kind, key)
        if not self._writing:
            return
        # safetensors reads memory as if it were contiguous
        contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = save(contiguous, {"facts": _json(facts)})
        try:
            write_bytes(path, data, sync=False)  # what a power failure damages is computed again
        except IplError as error:
            self._writing = False
            reason = str(getattr(error.__cause__, "strerror", None) or error).lower()
            self.reporter.warn(
                f"The cache {self.folder} cannot be written ({reason}); "
                "the work continues, but no new results are stored."
            )

    def has(self, kind: str, key: str) -> bool:
        """Returns whether there is an entry of a key, which may be damaged."""
        return os.path.isfile(self._path(kind, key))

    def drop(self, kind: str, key: str) -> None:
        """Removes the entry of a key, if there is one."""
        with suppress(OSError):
            self._path(kind, key).unlink()

    def expire(self, kind: str, seconds: float) -> None:
        """Removes the entries of a kind that were written more than so many seconds ago."""
        for path in self._files(kind):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - seconds:
                    path.unlink()

    def usage(self) -> dict[str, tuple[int, int]]:
        """Returns the number of entries and their bytes, by kind."""
        usage = {}
        for kind in KINDS:
            sizes = [_size(path) for path in self._files(kind)]
            usage[kind] = len(sizes), sum(sizes)
        return usage

    def entries(self, kind: str) -> Iterator[CacheListing]:
        """Yields the entries of a kind in the order of their keys, without reading the arrays."""
        for path in sorted(self._files(kind)):
            facts = {}
            with suppress(*UNREADABLE), safe_open(path, "numpy") as file:
                facts = _facts(file)
            yield CacheListing(path.name, path, _size(path), facts)

    def clear(self, kind: str | None = None) -> tuple[int, int]:
        """Remove the entries of one kind or of all, and leftovers of interrupted writes.

        Other files in the folder stay.

        Returns
        -------
        count : int
            The number of entries removed.
        size : int
            Their size in bytes.

        Raises
        ------
        IplError
            If an entry cannot be removed.
        """
        count, total_size = 0, 0
        for cleared in KINDS if kind is None else (kind,):
            entries = self._files(cleared)
            count, total_size = count + len(entries), total_size + sum(map(_size, entries))
            for path in (*entries, *(self.folder / cleared).glob(f"??/.*{TEMPORARY}")):
                try:
                    path.unlink(missing_ok=True)  # another process may have removed it
                except OSError as error:
                    raise IplError(f"Cannot remove {path}: {error.strerror}.") from error
        return count, total_size

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def _files(self, kind: str) -> list[Path]:
        """Returns the files that are named like entries."""
        found = (self.folder / kind).glob("??/*")
        return [path for path in found if KEY.fullmatch(path.name) and path.is_file()]


def _facts(file: Any) -> dict[str, Any]:
    """Returns the facts in the metadata of an open file."""
    facts = json.loads(file.metadata()["facts"])
    if not isinstance(facts, dict):
        raise ValueError("facts must be an object")
    return facts


def _size(path: Path) -> int:
    """Returns the bytes of a file, 0 if another process has removed it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _json(value: Mapping[str, Any]) -> str:
    """Returns the one JSON text of JSON values; raises TypeError or ValueError for any others."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
