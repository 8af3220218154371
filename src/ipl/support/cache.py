"""Answers that cost time, kept on disk under hashes of what they were computed from.

An entry is the file `FOLDER/KIND/first two hex/KEY`: one line `ipl-cache 1 SHA-256 of the rest`,
then safetensors with the facts as JSON in its metadata. A damaged entry is as good as none, and a
folder that cannot be written costs a warning, never the work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ipl.support.errors import IplError
from ipl.support.files import write_bytes
from ipl.support.progress import SILENT, Reporter

KINDS = ("images", "words", "selections", "trainings")
VERSION = b"1"
HEADER = re.compile(rb"ipl-cache ([0-9]{1,9}) ([0-9a-f]{64})\n")
LONGEST_HEADER = 100
KEY = re.compile(r"[0-9a-f]{64}")
PART = re.compile(r"[0-9a-f]{2}")
LEFTOVER = re.compile(r"\.[0-9a-f]{40}\.[a-z0-9_]{8}")  # the temporary names of files.write_bytes
# What reading an entry raises if its content is not what we wrote.
DAMAGE = (ValueError, KeyError, TypeError, RecursionError, SafetensorError)


@dataclass(frozen=True)
class CacheEntry:
    """What was kept under one key."""

    arrays: dict[str, np.ndarray[Any, Any]]
    facts: dict[str, Any]  # JSON values


class CacheListing(NamedTuple):
    """One entry as a listing shows it."""

    key: str
    path: Path
    bytes: int
    facts: dict[str, Any]  # empty if the entry is damaged or of another version


def cache_folder() -> Path:
    """Returns the folder for all that is kept: $IPL_CACHE, $XDG_CACHE_HOME/ipl or ~/.cache/ipl."""
    if given := os.environ.get("IPL_CACHE"):
        return Path(os.path.expanduser(given))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore those
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):  # a user without a home
        return Path(tempfile.gettempdir()) / "ipl-cache"
    return Path(base) / "ipl"


def key_of(**parts: Any) -> str:
    """Returns the SHA-256 in hex of named plain values, the same in whatever order they stand."""
    return hashlib.sha256(_json(parts).encode("ascii")).hexdigest()


class Cache:
    """Entries in one folder; nothing in it has to be there, and nothing is made before a `put`."""

    def __init__(self, folder: Path | None = None, reporter: Reporter = SILENT) -> None:
        # Absolute, so that a change of the working folder does not move the cache.
        self.folder = (cache_folder() if folder is None else folder).absolute()
        self.reporter = reporter
        self._writing = True

    def get(self, kind: str, key: str) -> CacheEntry | None:
        """Returns what was put under a key; None if nothing was, or if it is damaged."""
        path = self._path(kind, key)
        try:
            with open(path, "rb") as file:
                checksum = _header(file)
                if checksum is None:
                    return None
                data = file.read()
            if hashlib.sha256(data).hexdigest() != checksum:
                raise ValueError("wrong checksum")
            return CacheEntry(load(data), _facts(data))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if not os.path.lexists(path):  # it is the folder that cannot be entered
                return None
            reason = (error.strerror or str(error)).lower()
        except DAMAGE:
            reason = "it is damaged"
        _remove(path)
        self.reporter.warn(f"Cannot use the cache entry {path}: {reason}; it is computed anew.")
        return None

    def put(
        self,
        kind: str,
        key: str,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        facts: Mapping[str, Any],
    ) -> None:
        """Keeps arrays and facts under a key, in place of what was there."""
        path = Path(self._path(kind, key))
        if not self._writing:
            return
        # safetensors reads memory as if it were contiguous
        together = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = save(together, {"facts": _json(dict(facts))})
        head = b"ipl-cache %b %b\n" % (VERSION, hashlib.sha256(data).hexdigest().encode())
        try:
            try:
                write_bytes(path, head + data)
            except IplError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                write_bytes(path, head + data)  # a `clear` took the folder away under us
        except IplError as error:
            self._writing = False
            reason = str(getattr(error.__cause__, "strerror", None) or error).lower()
            self.reporter.warn(
                f"The cache {self.folder} cannot be written ({reason}); "
                "the work goes on, and nothing new is kept."
            )

    def drop(self, kind: str, key: str) -> None:
        """Removes what was put under a key, if anything was."""
        _remove(self._path(kind, key))

    def usage(self) -> dict[str, tuple[int, int]]:
        """Returns the number of entries and their bytes, per kind."""
        found = {}
        for kind in KINDS:
            sizes = [size for _, size in self._files(kind)]
            found[kind] = len(sizes), sum(sizes)
        return found

    def entries(self, kind: str) -> Iterator[CacheListing]:
        """Yields the entries of a kind in the order of their keys, without reading the arrays."""
        for path, size in sorted(self._files(kind)):
            facts: dict[str, Any] = {}
            with suppress(OSError, *DAMAGE), open(path, "rb") as file:
                if _header(file) is not None:
                    facts = _facts(_first_bytes(file, size))
            if os.path.lexists(path):  # another process may have cleared it meanwhile
                yield CacheListing(os.path.basename(path), Path(path), size, facts)

    def clear(self, kind: str | None = None) -> tuple[int, int]:
        """Removes the entries of a kind, or of all; returns how many there were and their bytes.

        Leftovers of writes that were interrupted go with them; whatever else lies there stays.
        """
        count, size, failed = 0, 0, []
        for one in KINDS if kind is None else (kind,):
            for path, bytes_ in list(self._files(one)):
                try:
                    os.unlink(path)
                    count, size = count + 1, size + bytes_
                except FileNotFoundError:
                    pass
                except OSError as error:
                    failed.append(f"{path}: {error.strerror or error}")
            self._sweep(one)
        if failed:
            raise IplError(
                f"Removed {count} cache entries; {len(failed)} could not be, such as {failed[0]}."
            )
        return count, size

    def _path(self, kind: str, key: str) -> str:
        _check_kind(kind)
        if not KEY.fullmatch(key):
            raise ValueError(f"key is {key!r}; a SHA-256 in hex is needed, as key_of makes it.")
        return f"{self.folder}{os.sep}{kind}{os.sep}{key[:2]}{os.sep}{key}"

    def _parts(self, kind: str) -> Iterator[str]:
        """Yields the folders of a kind that hold entries, by the first two digits."""
        _check_kind(kind)
        for found in _scan(self.folder / kind):
            if PART.fullmatch(found.name) and found.is_dir(follow_symlinks=False):
                yield found.path

    def _files(self, kind: str) -> Iterator[tuple[str, int]]:
        """Yields path and size of the files that are named and placed like entries."""
        for part in self._parts(kind):
            for found in _scan(part):
                if not KEY.fullmatch(found.name) or found.name[:2] != os.path.basename(part):
                    continue
                try:
                    status = found.stat(follow_symlinks=False)
                except OSError:  # removed by another process meanwhile
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield found.path, status.st_size

    def _sweep(self, kind: str) -> None:
        """Removes leftovers of interrupted writes, and folders of ours that are empty."""
        parts = list(self._parts(kind))
        for part in parts:
            for found in _scan(part):
                ours = LEFTOVER.fullmatch(found.name)
                if ours and found.name[1:3] == os.path.basename(part) and found.is_file():
                    _remove(found.path)
            with suppress(OSError):
                os.rmdir(part)
        if parts:
            with suppress(OSError):
                os.rmdir(self.folder / kind)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; allowed are {', '.join(KINDS)}.")


def _scan(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # not there, not a folder, or not ours to look into
        return []


def _remove(path: str) -> None:
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)  # an empty one only: we never make folders there
        else:
            os.unlink(path)


def _header(file: IO[bytes]) -> str | None:
    """Returns the checksum in the first line; None if another version wrote the entry."""
    match = HEADER.fullmatch(file.readline(LONGEST_HEADER))
    if match is None:
        raise ValueError("wrong first line")
    return match[2].decode() if match[1] == VERSION else None


def _first_bytes(file: IO[bytes], most: int) -> bytes:
    """Returns the first part of a safetensors file, which holds the metadata."""
    length = file.read(8)
    return length + file.read(min(int.from_bytes(length, "little"), most))


def _facts(data: bytes) -> dict[str, Any]:
    """Returns the facts in the metadata of safetensors, whose reader does not give them."""
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    facts = json.loads(metadata["facts"], parse_constant=_no_constant)
    if not isinstance(facts, dict):
        raise ValueError("facts must be an object")
    return facts


def _json(value: dict[str, Any]) -> str:
    """Returns the one JSON text of plain values; raises TypeError for any others."""
    _check_plain(value, "")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_plain(value: Any, name: str) -> None:
    # json.dumps would turn the key 1 into "1", so that two different values had one text.
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{name or 'the value'} has the key {key!r}; keys must be text.")
            _check_plain(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_plain(inner, f"{name}[{index}]")
    elif isinstance(value, float) and not np.isfinite(value):
        raise TypeError(f"{name} is {value}, which JSON cannot hold.")
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"{name} is a {type(value).__name__}, which JSON cannot hold.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
