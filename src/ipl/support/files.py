"""Files written whole or not at all, under a temporary name first; and text files read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ipl.support.errors import DataError, IplError


def sha256_text(text: str) -> str:
    """Returns the SHA-256 of a text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_text(path: Path, hint: str = "") -> str:
    """Returns a UTF-8 text; `hint` says where a missing file can be found.

    Raises DataError if the file is missing or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"No such file: {path}{'; ' if hint else ''}{hint}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: {error}.") from None


def read_lines(path: Path, hint: str = "") -> list[tuple[int, str]]:
    """Returns the line number and the stripped text of every line that is not blank."""
    lines = enumerate(read_text(path, hint).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yields a temporary file that replaces `path` when the block ends without an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield Path(name)
        _apply_umask(name)
        os.replace(name, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise _cannot_write(path, error) from error
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with replace_file(path) as work, open(work, "wb") as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces `path` when the block ends without an error.

    An existing folder stays until the new one is complete, and is restored if the swap fails.
    A link stays a link: the folder that it points to is replaced.
    """
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", dir=path.parent))
        _apply_umask(work, 0o777)
    except OSError as error:
        raise _cannot_write(path, error) from error
    old = work.with_name(work.name + ".old")
    try:
        yield work
        for file in work.rglob("*"):  # other libraries also write private files
            _apply_umask(file, 0o777 if file.is_dir() else 0o666)
        if path.exists():
            os.replace(path, old)
        os.replace(work, path)
    except BaseException as error:
        with suppress(OSError):  # another process may have created `path` in the meantime
            if old.exists() and not path.exists():
                os.replace(old, path)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_writable(path: Path) -> None:
    """Raises IplError if nothing can be created at `path`, whose parents may not exist yet."""
    try:
        path.exists()  # a name too long for the system raises here
        parent = path.resolve().parent
        while not parent.exists():
            parent = parent.parent
    except OSError as error:
        raise _cannot_write(path, error) from None
    if not parent.is_dir():
        raise IplError(f"Cannot write {path}: {parent} is a file.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise IplError(f"Cannot write {path}: no permission to write in {parent}.")


def check_file_writable(path: Path) -> None:
    """Raises IplError if no file can be written at `path`."""
    check_writable(path)
    if path.is_dir():
        raise IplError(f"Cannot write {path}: it is a folder.")


def is_folder(path: Path) -> bool:
    """Returns whether `path` is a folder; False for a name that the system does not allow."""
    try:
        return path.is_dir()
    except OSError:
        return False


def path_exists(path: Path) -> bool:
    """Returns whether `path` exists; False for a name that the system does not allow."""
    try:
        return path.exists()
    except OSError:
        return False


def _apply_umask(path: str | Path, mode: int = 0o666) -> None:
    # Temporary files are private; a saved prompt should be as readable as any other file.
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, mode & ~umask)


def _cannot_write(path: Path, error: OSError) -> IplError:
    return IplError(f"Cannot write {path}: {error.strerror or error}.")
