"""Claims: two processes that share an OUT folder never do the same training at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from ipl.support.errors import IplError

FOLDER = ".claims"


class Claims:
    """A lock file for each training that is being done.

    The system releases a lock when its process ends, however it ends: none is ever stale.
    """

    def __init__(self, out: Path) -> None:
        self._folder = out / FOLDER
        self._locks: dict[str, BaseFileLock] = {}

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._locks):
            self.release(name)

    def take(self, name: str) -> bool:
        """Claims a training; False if another process, or another run here, is doing it."""
        lock = FileLock(self._folder / f"{name}.lock", timeout=0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            return False
        except OSError as error:
            raise IplError(
                f"{self._folder} cannot be locked ({error.strerror or error}); put --out on a file "
                "system that has locks."
            ) from error
        self._locks[name] = lock
        return True

    def release(self, name: str) -> None:
        """Lets others have the training."""
        lock = self._locks.pop(name)
        with suppress(OSError):
            os.unlink(lock.lock_file)  # before the lock ends, so that it is nobody else's
        lock.release()
