"""Files and folders written whole or not at all, under a temporary name first; text files read.

What is written is on disk (`fsync`) before it is renamed, and the folder it is in after that.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from ipl.support.errors import DataError, FolderInUseError, IplError

LONGEST_STEM = 100  # bytes of a folder's name in the names of its temporary folders
NEW, OLD = ".new", ".old"  # how the names of temporary folders end
TEMPORARY = ".tmp"  # and those of temporary files
DAY = 24 * 3600.0
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # of a file system that has none
SIBLINGS = 1000  # names beside a missing one that are compared with it


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
def replace_file(path: Path, sync: bool = True) -> Iterator[Path]:
    """Yields a temporary file that replaces `path` when the block ends without an error.

    A link stays a link: the file that it points to is replaced. Without `sync` it may be empty
    after a power failure: for what can be made again.
    """
    try:
        path = path.resolve() if path.is_symlink() else path
        _check_not_special(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if sync:  # the others are many in one folder
            _remove_leftovers(path)
        handle, name = tempfile.mkstemp(TEMPORARY, f".{path.name[:40]}.", path.parent)
        os.close(handle)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield Path(name)
        _apply_umask(name)
        if sync:
            _sync_file(name)
        os.replace(name, path)
        if sync:
            sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise _cannot_write(path, error) from error
        raise


def _remove_leftovers(path: Path) -> None:
    """Removes temporary files of `path` that are a day old: their processes were killed."""
    leftover = re.compile(rf"\.{re.escape(path.name[:40])}\.[a-z0-9_]{{8}}{re.escape(TEMPORARY)}")
    with suppress(OSError):
        for name in filter(leftover.fullmatch, os.listdir(path.parent)):
            with suppress(OSError):
                if time.time() - os.stat(path.parent / name).st_mtime > DAY:
                    os.unlink(path.parent / name)


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
    real = path.resolve()
    with suppress(FileNotFoundError):  # the current folder may have been removed
        if Path.cwd().is_relative_to(real):  # replaced, it would be gone under the user's feet
            raise IplError(f"Cannot write {path}: it is the current folder, or one around it.")
    made = [folder for folder in real.parents if not folder.exists()]
    # One object for all claims of a path, so that a thread may claim again what it has claimed.
    lock = FileLock(real.with_name(f".{_stem(real)}.lock"), is_singleton=True)
    try:
        _take(lock)
    except Timeout:
        if not os.path.exists(lock.lock_file):  # as in /proc
            raise IplError(f"Cannot write {path}: nothing can be created in its folder.") from None
        raise FolderInUseError(
            f"{path} is being written by another process; wait until it ends, or choose another "
            "folder."
        ) from None
    except OSError as error:
        raise _cannot_write(path, error) from error
    first = lock.lock_counter <= 1
    try:
        if first and lock.is_locked:
            _finish_replacement(real)
        yield
    finally:
        with suppress(OSError):
            if first:
                os.unlink(lock.lock_file)  # before the lock ends, so that it is nobody else's
        lock.release()
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def _take(lock: BaseFileLock) -> None:
    """Takes a lock, and makes the folder it is in; raises Timeout if others have it.

    Where the file system has no locks, nobody is kept from writing.
    """
    for attempt in range(3):
        os.makedirs(os.path.dirname(lock.lock_file), exist_ok=True)
        try:
            lock.acquire(timeout=0.05, poll_interval=0.01)
        except FileNotFoundError:  # another process removed the folder, which was empty
            if attempt == 2:
                raise
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return
        else:
            return


@contextmanager
def replace_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yields a temporary folder that becomes `path` when the block ends without an error.

    Without `overwrite` the folder at `path` must be missing or empty, also at the end. Otherwise it
    stays until the new one is complete, and is restored if the swap fails. A link stays a link: the
    folder that it points to is replaced.
    """
    with claim_folder(path):
        path = path.resolve()
        try:
            work = Path(tempfile.mkdtemp(NEW, f".{_stem(path)}.", path.parent))
            _apply_umask(work, 0o777)
        except OSError as error:
            raise _cannot_write(path, error) from error
        try:
            yield work
            _sync_tree(work)
            _rename_folder(work, path, overwrite)
        except OSError as error:
            raise _cannot_write(path, error) from error
        finally:
            if path.exists() or not work.with_suffix(OLD).exists():
                _remove_folder(work)
                _remove_folder(work.with_suffix(OLD))


def recover_folder(path: Path) -> None:
    """Finishes the replacement of a folder that is missing because a process was killed."""
    with suppress(OSError, IplError):
        real = path.resolve()
        if not real.exists() and any(p.suffix == OLD for p in _temporary_folders(real)):
            with claim_folder(path):
                pass


def _rename_folder(work: Path, path: Path, overwrite: bool) -> None:
    """Renames a folder to `path`, where it replaces an empty folder, or any with `overwrite`."""
    old = work.with_suffix(OLD)
    try:
        os.replace(work, path)  # fails if there is a folder that is not empty
    except OSError as error:
        if not overwrite or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        try:
            os.replace(path, old)  # a kill after this leaves both: see _finish_replacement
            os.replace(work, path)
        except BaseException:
            with suppress(OSError):
                if old.exists() and not path.exists():
                    os.replace(old, path)
            raise
    sync_folder(path.parent)


def _finish_replacement(path: Path) -> None:
    """Does what a killed process had still to do; nobody else may be writing `path`."""
    folders = _temporary_folders(path)
    if not path.exists():
        for old in (folder for folder in folders if folder.suffix == OLD):
            new = old.with_suffix(NEW)
            if new in folders:  # killed between the two renames, when both were complete
                os.replace(new, path)
                sync_folder(path.parent)
                break
    for folder in folders:
        _remove_folder(folder)


def _temporary_folders(path: Path) -> list[Path]:
    """Returns the temporary folders of `path`, whoever made them."""
    name = re.compile(rf"\.{re.escape(_stem(path))}\.[a-z0-9_]{{8}}({NEW}|{OLD})")
    siblings = path.parent.iterdir() if path.parent.is_dir() else ()
    return [folder for folder in siblings if name.fullmatch(folder.name)]


def _stem(path: Path) -> str:
    """Returns a folder's name, shortened so that the names of temporary folders are allowed."""
    if len(os.fsencode(path.name)) <= LONGEST_STEM:
        return path.name
    return f"{path.name[:20]}-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:20]}"


def _remove_folder(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


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
    _check_not_special(path)


def _check_not_special(path: Path) -> None:
    """Raises IplError for a device or a pipe, which a file would take the place of."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise IplError(f"Cannot write {path}: it is not a regular file.")


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


def check_exists(path: Path) -> None:
    """Raises DataError, with a suggestion if there is one, unless a file or folder exists."""
    if not path_exists(path):
        raise DataError(f"No such file or folder: {path}.{similar_path(path)}")


def similar_path(path: Path) -> str:
    """Returns " Did you mean 'x'?" with the file or folder that `path` may be a slip of, or ""."""
    try:
        names = [each.name for each in islice(path.parent.iterdir(), SIBLINGS)]
    except OSError:
        return ""
    close = get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" Did you mean {str(path.parent / close[0])!r}?" if close else ""


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on disk, where the system can do that for folders."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


def _sync_tree(folder: Path) -> None:
    """Puts a folder on disk, with modes as the umask says: other libraries write private files."""
    for path in (*folder.rglob("*"), folder):
        _apply_umask(path, 0o777 if path.is_dir() else 0o666)
        if path.is_dir():
            sync_folder(path)
        else:
            _sync_file(path)


def _sync_file(path: str | Path) -> None:
    """Puts the content of a file on disk."""
    _sync(path, os.O_RDWR)


def _sync(path: str | Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _apply_umask(path: str | Path, mode: int = 0o666) -> None:
    # Temporary files are private; a saved prompt should be as readable as any other file.
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, mode & ~umask)


def _cannot_write(path: Path, error: OSError) -> IplError:
    return IplError(f"Cannot write {path}: {error.strerror or error}.")
