"""Files and folders written whole or not at all, under a temporary name first; text files read."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from ipl.support.errors import CONTROLS, DataError, FolderInUseError, IplError, closest, printable

TEMPORARY = ".tmp"  # how the names of temporary files end
SIBLINGS = 1000  # names beside a missing one that are compared with it


# -- reading --------------------------------------------------------------------------------------


def read_text(path: Path, hint: str = "") -> str:
    """A UTF-8 text; `hint` says where a missing file can be found."""
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"No such file: {path}{'; ' if hint else ''}{hint}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8; save it as UTF-8 (in Excel: CSV UTF-8).") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise DataError(f"{path} cannot be read: {error}.") from None


def read_lines(path: Path, hint: str = "") -> list[tuple[int, str]]:
    """The line number and the stripped text of every line that is not blank."""
    lines = enumerate(read_text(path, hint).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def check_exists(path: Path) -> None:
    """Raises DataError, with a suggestion if there is one, unless a file or folder exists."""
    if not os.path.exists(path):
        raise DataError(f"No such file or folder: {path}.{similar_path(path)}")


def check_regular(path: Path) -> None:
    """Raises DataError for a folder, and for a pipe or device, which may have no end."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file.")
    if is_special(path):
        raise DataError(f"{path} is not a regular file.")


def is_special(path: Path) -> bool:
    """Whether a path exists, and is neither a file nor a folder."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def similar_path(path: Path) -> str:
    """Returns " Did you mean 'x'?" with the names that `path` may be a slip of, or ""."""
    with suppress(OSError):
        return closest(path.name, [each.name for each in islice(path.parent.iterdir(), SIBLINGS)])
    return ""


# -- writing files --------------------------------------------------------------------------------


@contextmanager
def replace_file(path: Path, sync: bool = True) -> Iterator[Path]:
    """Yields the path of a new file that replaces `path` when the block ends without an error.

    A link stays a link: the file that it points to is replaced. Without `sync` it may be empty
    after a power failure: for what can be made again.
    """
    check_file_writable(path)
    with _writing(path):
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name[:40]}.{token_hex(4)}{TEMPORARY}")
        try:
            yield new
            if sync:
                _sync(new)
            os.replace(new, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise


def write_bytes(path: Path, data: bytes, sync: bool = True) -> None:
    with replace_file(path, sync) as new, open(new, "wb") as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Writes a text for people: names in it may come from strangers' files."""
    write_bytes(path, printable(text).encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, to_json(value).encode("utf-8") + b"\n")


def to_json(value: Any, indent: int | None = 2) -> str:
    """A JSON text in which control characters are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def check_writable(path: Path) -> None:
    """Raises IplError if nothing can be created at `path`, whose parents may not exist yet."""
    with _writing(path):
        path.exists()  # a name too long for the system raises here
        parent = path.resolve().parent
        while not parent.exists():
            parent = parent.parent
    if not parent.is_dir():
        raise IplError(f"Cannot write {path}: {parent} is a file.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise IplError(f"Cannot write {path}: no permission to write in {parent}.")


def check_file_writable(path: Path) -> None:
    """Raises IplError if no file can be written at `path`."""
    check_writable(path)
    if path.is_dir():
        raise IplError(f"Cannot write {path}: it is a folder.")
    if is_special(path):
        raise IplError(f"Cannot write {path}: it is not a regular file.")


# -- writing folders ------------------------------------------------------------------------------


@contextmanager
def claim_folder(path: Path) -> Iterator[None]:
    """Keeps others from writing a folder until the block ends; the folder need not exist.

    If a process was killed while it replaced the folder, that is finished first, and what killed
    processes left beside it is removed. Raises FolderInUseError if another process or thread is
    writing the folder.
    """
    check_writable(path)
    target = path.resolve()
    if Path.cwd().is_relative_to(target):  # replaced, it would be gone under the user's feet
        raise IplError(f"Cannot write {path}: it is the current folder, or one around it.")
    # One object for all claims of a path, so that a thread may claim again what it has claimed.
    lock = FileLock(target.with_name(f".{target.name}.lock"), is_singleton=True)
    with _writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0.05, poll_interval=0.01)
        except Timeout:
            raise FolderInUseError(
                f"{path} is being written by another process; wait until it ends, or choose "
                "another folder."
            ) from None
    try:
        _finish_replacement(target)
        yield
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):
                os.unlink(lock.lock_file)  # before the lock ends, so that it is nobody else's
        lock.release()


@contextmanager
def replace_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yields a temporary folder that becomes `path` when the block ends without an error.

    Without `overwrite` the folder at `path` must be missing or empty, also at the end. Otherwise it
    stays until the new one is complete, and is restored if the swap fails. A link stays a link: the
    folder that it points to is replaced.
    """
    with claim_folder(path), _writing(path):
        target = path.resolve()
        new, old = _beside(target)
        try:
            new.mkdir()
            yield new
            _sync_tree(new)
            try:
                os.replace(new, target)  # fails if there is a folder that is not empty
            except OSError as error:
                if not overwrite or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                os.replace(target, old)  # a kill after this leaves both: see _finish_replacement
                try:
                    os.replace(new, target)
                except BaseException:
                    os.replace(old, target)
                    raise
        finally:
            _finish_replacement(target)


def recover_folder(path: Path) -> None:
    """Finishes the replacement of a folder that is missing because a process was killed."""
    with suppress(OSError, IplError):
        _, old = _beside(path.resolve())
        if old.exists() and not path.exists():
            with claim_folder(path):
                pass


def _beside(path: Path) -> tuple[Path, Path]:
    """Where the new folder is written, and where the old one goes meanwhile."""
    return path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")


def _finish_replacement(path: Path) -> None:
    """Does what is left to do, perhaps of a killed process; nobody else may be writing `path`."""
    new, old = _beside(path)
    if not path.exists() and new.exists() and old.exists():
        with _writing(path):
            os.replace(new, path)  # killed between the two renames, when both were complete
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    """Puts a folder's files on disk; those that libraries wrote as private get the usual mode."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns the system's errors into sentences about `path`."""
    try:
        yield
    except OSError as error:
        raise IplError(f"Cannot write {path}: {error.strerror or error}.") from error
