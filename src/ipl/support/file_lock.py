"""Locks that end with their process, however it ends: FileLock, and one of an open file."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

MOST_REMOVALS = 1000  # of the folder of a lock, by others, while it is taken


@dataclass
class _Holding:
    """A lock file that this process holds, and the folders that were made for it."""

    thread: int
    file: int
    made: list[Path]
    locked: bool  # False where the system has no locks
    depth: int = 1


_holdings: dict[Path, _Holding] = {}
_mutex = threading.Lock()


class FileLock:
    """A lock on a file; the thread that holds it may take it again.

    The system releases it when its process ends, so that it is never stale. When it is released,
    the file is removed, and so are the folders that had to be made for it, if they are empty.

    Parameters
    ----------
    path : Path
        The absolute path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self) -> bool:
        """Returns whether the lock is ours now; False if another process or thread has it.

        Raises
        ------
        OSError
            If the file cannot be created.
        """
        with _mutex:
            holding = _holdings.get(self.path)
            if holding is None:
                holding = _lock(self.path)
                if holding is None:
                    return False
                _holdings[self.path] = holding
            elif holding.thread == threading.get_ident():
                holding.depth += 1
            else:
                return False
        return True

    @property
    def is_first(self) -> bool:
        """Returns whether no one works under it yet; False if the system has no locks."""
        holding = _holdings[self.path]
        return holding.locked and holding.depth == 1

    def release(self) -> None:
        """Lets others have it, once it was released as often as it was taken."""
        with _mutex:
            holding = _holdings[self.path]
            holding.depth -= 1
            if holding.depth:
                return
            del _holdings[self.path]
            with suppress(OSError):
                os.unlink(self.path)  # before the lock ends, so that it is nobody else's
            os.close(holding.file)
            with suppress(OSError):
                for folder in holding.made:
                    os.rmdir(folder)


def _lock(path: Path) -> _Holding | None:
    """Returns a lock on a file, created if necessary; None if another process holds it."""
    made: list[Path] = []
    removed = 0
    while True:
        parent = path.parent
        while not parent.exists():
            made.append(parent)
            parent = parent.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process removed the folder, which was empty
            removed += 1
            if removed > MOST_REMOVALS:
                raise  # a folder in which nothing can be created, such as /proc
            continue
        locked = fcntl is not None
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # what it raises depends on the system
            os.close(file)
            return None
        except OSError:  # a file system without locks
            locked = False
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return _Holding(threading.get_ident(), file, made, locked)
        os.close(file)  # its holder removed it before we had the lock


def lock_until_closed(file: int, wait: bool = False) -> bool:
    """Locks an open file; returns False if it is locked already, or the system has no such locks.

    Unlike the lock of a FileLock, it stays when its process closes another handle of the file.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
