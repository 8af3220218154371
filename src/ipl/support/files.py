"""Files and folders written whole or not at all, under a temporary name first; text files read.

What is written is on disk (`fsync`) before it is renamed, and the folder it is in after that.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from ipl.support.errors import DataError, FolderInUseError, IplError

TEMPORARY = ".tmp"  # how the names of temporary files end
SIBLINGS = 1000  # names beside a missing one that are compared with it


def read_text(path: Path, hint: str = "") -> str:
    """Returns a UTF-8 text; `hint` says where a missing file can be found.

    Raises DataError if the file is missing or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"No such file: {path}{'; ' if hint else ''}{hint}.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: {error}.") from None


def read_lines(path: Path, hint: str = "") -> list[tuple[int, str]]:
    """Returns the line number and the stripped text of every line that is not blank."""
    lines = enumerate(read_text(path, hint).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


# -- files ----------------------------------------------------------------------------------------


@contextmanager
def replace_file(path: Path, sync: bool = True) -> Iterator[Path]:
    """Yields the path of a new file that replaces `path` when the block ends without an error.

    A link stays a link: the file that it points to is replaced. Without `sync` it may be empty
    after a power failure: for what can be made again.
    """
    check_not_special(path)
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    work = target.with_name(f".{target.name[:40]}.{token_hex(4)}{TEMPORARY}")
    try:
        yield work
        if sync:
            _sync(work)
        os.replace(work, target)
        if sync:
            _sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(work)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def write_bytes(path: Path, data: bytes, sync: bool = True) -> None:
    """Writes a file whole or not at all."""
    with replace_file(path, sync) as work, open(work, "wb") as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


# -- folders --------------------------------------------------------------------------------------


@contextmanager
def claim_folder(path: Path) -> Iterator[None]:
    """Keeps others from writing a folder until the block ends; the folder need not exist.

    If a process was killed while it replaced the folder, that is finished first, and what killed
    processes left beside it is removed.

    Raises
    ------
    FolderInUseError
        If another process or thread is writing the folder.
    IplError
        If nothing can be written there.
    """
    check_writable(path)
    target = path.resolve()
    if Path.cwd().is_relative_to(target):  # replaced, it would be gone under the user's feet
        raise IplError(f"Cannot write {path}: it is the current folder, or one around it.")
    # One object for all claims of a path, so that a thread may claim again what it has claimed.
    lock = FileLock(target.with_name(f".{target.name}.lock"), is_singleton=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0.05, poll_interval=0.01)
    except Timeout:
        raise FolderInUseError(
            f"{path} is being written by another process; wait until it ends, or choose another "
            "folder."
        ) from None
    except OSError as error:
        raise _cannot_write(path, error) from error
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
    with claim_folder(path):
        target = path.resolve()
        new, _ = _beside(target)
        try:
            new.mkdir()
            yield new
            _sync_tree(new)
            _rename_folder(target, overwrite)
        except OSError as error:
            raise _cannot_write(path, error) from error
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
    """Returns where the new folder is written, and where the old one goes meanwhile."""
    return path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")


def _rename_folder(path: Path, overwrite: bool) -> None:
    """Renames the new folder; it replaces an empty one, or any with `overwrite`."""
    new, old = _beside(path)
    try:
        os.replace(new, path)  # fails if there is a folder that is not empty
    except OSError as error:
        if not overwrite or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        os.replace(path, old)  # a kill after this leaves both: see _finish_replacement
        try:
            os.replace(new, path)
        except BaseException:
            os.replace(old, path)
            raise
    _sync_folder(path.parent)


def _finish_replacement(path: Path) -> None:
    """Does what is left to do, perhaps of a killed process; nobody else may be writing `path`."""
    new, old = _beside(path)
    if not path.exists() and new.exists() and old.exists():
        try:
            os.replace(new, path)  # killed between the two renames, when both were complete
        except OSError as error:
            raise _cannot_write(path, error) from error
        _sync_folder(path.parent)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


# -- what can be written, and what is there -------------------------------------------------------


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
    check_not_special(path)


def check_not_special(path: Path) -> None:
    """Raises IplError for a device or a pipe, which a file would take the place of."""
    if os.path.exists(path) and not (path.is_file() or path.is_dir()):
        raise IplError(f"Cannot write {path}: it is not a regular file.")


def check_exists(path: Path) -> None:
    """Raises DataError, with a suggestion if there is one, unless a file or folder exists."""
    if not os.path.exists(path):
        raise DataError(f"No such file or folder: {path}.{similar_path(path)}")


def similar_path(path: Path) -> str:
    """Returns " Did you mean 'x'?" with the file or folder that `path` may be a slip of, or ""."""
    try:
        names = [each.name for each in islice(path.parent.iterdir(), SIBLINGS)]
    except OSError:
        return ""
    close = get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


# -- on disk --------------------------------------------------------------------------------------


def _sync_tree(folder: Path) -> None:
    """Puts a folder on disk; files that other libraries wrote as private get the usual mode."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_dir():
            _sync_folder(path)
        else:
            path.chmod(mode)
            _sync(path)
    _sync_folder(folder)


def _sync_folder(path: Path) -> None:
    """Puts the names in a folder on disk, where the system can do that for folders."""
    with suppress(OSError):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot_write(path: Path, error: OSError) -> IplError:
    return IplError(f"Cannot write {path}: {error.strerror or error}.")
