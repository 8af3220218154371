"""The disk cache: results stored under hashes of everything that they were computed from.

An entry is the file `FOLDER/KIND/first two hex digits/KEY`: one line `ipl-cache 2 KIND/KEY SHA-256
of the rest`, then safetensors with the facts as JSON in its metadata. An entry that is damaged, or
has the name of another one, counts as missing, and a folder that cannot be written causes a
warning, never an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import tempfile
import time
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
VERSION = 2
HEADER = re.compile(rb"ipl-cache ([0-9]{1,9}) (?:([a-z]+/[0-9a-f]{64}) )?([0-9a-f]{64})\n")
LONGEST_HEADER = 200
KEY = re.compile(r"[0-9a-f]{64}")
PART = re.compile(r"[0-9a-f]{2}")
LEFTOVER = re.compile(r"\.[0-9a-f]{40}\.[a-z0-9_]{8}(\.tmp)?")  # names of files.replace_file
# Exceptions from reading an entry whose content is not what was written.
DAMAGE = (ValueError, KeyError, TypeError, RecursionError, SafetensorError)


class MisplacedEntryError(ValueError):
    """An entry has the name of another one, as after a copy."""


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
    facts: dict[str, Any]  # empty if the entry is damaged, misplaced or of another version


def cache_folder() -> Path:
    """Returns the folder of the cache: $IPL_CACHE, $XDG_CACHE_HOME/ipl or ~/.cache/ipl."""
    if folder := os.environ.get("IPL_CACHE"):
        return Path(os.path.expanduser(folder))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore relative paths
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):  # a user without a home
        return Path(tempfile.gettempdir()) / "ipl-cache"
    return Path(base) / "ipl"


def key_of(**parts: Any) -> str:
    """Hash named values to the key of an entry.

    Parameters
    ----------
    **parts : JSON values
        Everything that decides the result. Their order does not matter.

    Returns
    -------
    str
        A SHA-256 in hex.

    Raises
    ------
    TypeError
        If a value is not None, a string, a finite number, or a list or dict of such values.
    """
    return hashlib.sha256(_json(parts).encode("ascii")).hexdigest()


class Cache:
    """A folder of entries, each stored under a kind and a key.

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
        """Read an entry.

        Parameters
        ----------
        kind : {"images", "words", "selections", "trainings"}
            The kind of entry.
        key : str
            The key, as `key_of` returns it.

        Returns
        -------
        CacheEntry or None
            None if there is no entry, or if it is damaged or was stored under another key; such an
            entry is removed, with a warning.
        """
        path = self._path(kind, key)
        try:
            with open(path, "rb") as file:
                checksum = _header(file, kind, key)
                if checksum is None:
                    return None
                data = file.read()
            if hashlib.sha256(data).hexdigest() != checksum:
                raise ValueError("wrong checksum")
            return CacheEntry(load(data), _facts(data))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if not os.path.lexists(path):  # the folder is not accessible
                return None
            reason = (error.strerror or str(error)).lower()
        except MisplacedEntryError as error:
            reason = str(error)
        except DAMAGE:
            reason = "it is damaged"
        _remove(path)
        self.reporter.warn(f"Cannot use the cache entry {path}: {reason}; it is computed again.")
        return None

    def put(
        self,
        kind: str,
        key: str,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        facts: Mapping[str, Any],
    ) -> None:
        """Store an entry, replacing an existing one.

        A folder that cannot be written causes one warning, and nothing more is stored.

        Parameters
        ----------
        kind : {"images", "words", "selections", "trainings"}
            The kind of entry.
        key : str
            The key, as `key_of` returns it.
        arrays : mapping of str to numpy.ndarray
            Arrays by name.
        facts : mapping of str to JSON values
            Small values beside the arrays.
        """
        path = Path(self._path(kind, key))
        if not self._writing:
            return
        # safetensors reads memory as if it were contiguous
        contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = save(contiguous, {"facts": _json(dict(facts))})
        checksum = hashlib.sha256(data).hexdigest()
        head = f"ipl-cache {VERSION} {kind}/{key} {checksum}\n".encode()
        sync = kind != "images"  # they are many, and quick to compute again if one is damaged
        try:
            try:
                write_bytes(path, head + data, sync)
            except IplError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                write_bytes(path, head + data, sync)  # another process cleared the cache
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
        _remove(self._path(kind, key))

    def expire(self, kind: str, seconds: float) -> None:
        """Removes the entries of a kind that were written more than so many seconds ago."""
        oldest = time.time() - seconds
        for path, _ in self._files(kind):
            with suppress(OSError):
                if os.stat(path).st_mtime < oldest:
                    os.unlink(path)

    def usage(self) -> dict[str, tuple[int, int]]:
        """Returns the number of entries and their bytes, by kind."""
        usage = {}
        for kind in KINDS:
            sizes = [size for _, size in self._files(kind)]
            usage[kind] = len(sizes), sum(sizes)
        return usage

    def entries(self, kind: str) -> Iterator[CacheListing]:
        """Yields the entries of a kind in the order of their keys, without reading the arrays."""
        for path, size in sorted(self._files(kind)):
            facts: dict[str, Any] = {}
            with suppress(OSError, *DAMAGE), open(path, "rb") as file:
                if _header(file, kind, os.path.basename(path)) is not None:
                    facts = _facts(_read_metadata(file, size))
            if os.path.lexists(path):  # another process may have cleared it in the meantime
                yield CacheListing(os.path.basename(path), Path(path), size, facts)

    def clear(self, kind: str | None = None) -> tuple[int, int]:
        """Remove the entries of one kind or of all, and leftovers of interrupted writes.

        Other files in the folder stay.

        Parameters
        ----------
        kind : {"images", "words", "selections", "trainings"}, optional
            The kind to remove; by default all.

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
        count, total_size, failures = 0, 0, []
        for cleared in KINDS if kind is None else (kind,):
            for path, size in list(self._files(cleared)):
                try:
                    os.unlink(path)
                    count, total_size = count + 1, total_size + size
                except FileNotFoundError:
                    pass
                except OSError as error:
                    failures.append(f"{path}: {error.strerror or error}")
            self._remove_leftovers(cleared)
        if failures:
            raise IplError(
                f"Removed {count} cache entries, but {len(failures)} could not be removed, such "
                f"as {failures[0]}."
            )
        return count, total_size

    def _path(self, kind: str, key: str) -> str:
        _check_kind(kind)
        if not KEY.fullmatch(key):
            raise ValueError(f"key is {key!r}; it must be a SHA-256 in hex, as key_of returns it.")
        return f"{self.folder}{os.sep}{kind}{os.sep}{key[:2]}{os.sep}{key}"

    def _parts(self, kind: str) -> Iterator[str]:
        """Yields the folders of a kind that contain entries, by their first two digits."""
        _check_kind(kind)
        for entry in _scan(self.folder / kind):
            if PART.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.path

    def _files(self, kind: str) -> Iterator[tuple[str, int]]:
        """Yields path and size of the files whose name and folder are those of an entry."""
        for part in self._parts(kind):
            for entry in _scan(part):
                if not KEY.fullmatch(entry.name) or entry.name[:2] != os.path.basename(part):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # removed by another process in the meantime
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield entry.path, status.st_size

    def _remove_leftovers(self, kind: str) -> None:
        """Removes leftovers of interrupted writes, and folders of entries that are empty."""
        parts = list(self._parts(kind))
        for part in parts:
            for entry in _scan(part):
                leftover = LEFTOVER.fullmatch(entry.name)
                if leftover and entry.name[1:3] == os.path.basename(part) and entry.is_file():
                    _remove(entry.path)
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
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # missing, not a folder, or not readable
        return []


def _remove(path: str) -> None:
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)  # only an empty one: the cache creates no folder there
        else:
            os.unlink(path)


def _header(file: IO[bytes], kind: str, key: str) -> str | None:
    """Returns the checksum in the first line; None if the entry has another version.

    Raises ValueError if it is no such line, and MisplacedEntryError if it names another entry.
    """
    match = HEADER.fullmatch(file.readline(LONGEST_HEADER))
    if match is None:
        raise ValueError("wrong first line")
    if int(match[1]) != VERSION:
        return None
    if match[2] != f"{kind}/{key}".encode():
        raise MisplacedEntryError("it is the entry of another key")
    return match[3].decode()


def _read_metadata(file: IO[bytes], size: int) -> bytes:
    """Returns the first part of a safetensors file of at most `size` bytes: its metadata."""
    length = file.read(8)
    return length + file.read(min(int.from_bytes(length, "little"), size))


def _facts(data: bytes) -> dict[str, Any]:
    """Returns the facts in the metadata of safetensors, which its reader does not return."""
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    facts = json.loads(metadata["facts"], parse_constant=_refuse_constant)
    if not isinstance(facts, dict):
        raise ValueError("facts must be an object")
    return facts


def _json(value: dict[str, Any]) -> str:
    """Returns the one JSON text of JSON values; raises TypeError for any others."""
    _check_json(value, "")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_json(value: Any, name: str) -> None:
    # json.dumps turns the key 1 into "1", so that two different values would have one text.
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{name or 'the value'} has the key {key!r}; keys must be strings.")
            _check_json(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_json(inner, f"{name}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{name} is {value}, which JSON cannot represent.")
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"{name} is a {type(value).__name__}, which JSON cannot represent.")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")
