"""Claims: two processes that share an OUT folder never do the same run at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import BaseFileLock, FileLock, Timeout

from ipl.support.errors import IplError

FOLDER = ".claims"


class Claims:
    """A lock file for each run that is being done.

    The system releases a lock when its process ends, however it ends: none is ever stale.
    """

    def __init__(self, out: Path) -> None:
        self._folder = out / FOLDER
        self._locks: dict[str, BaseFileLock] = {}

    def take(self, run_id: str) -> bool:
        """Returns whether the run is ours now; False if another process is doing it."""
        # One thread takes a run and another one releases it.
        lock = FileLock(self._folder / f"{run_id}.lock", timeout=0, thread_local=False)
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
        self._locks[run_id] = lock
        return True

    def release(self, run_id: str) -> None:
        """Lets another process have the run."""
        lock = self._locks.pop(run_id)
        with suppress(OSError):
            os.unlink(lock.lock_file)  # before the lock ends, so that it is nobody else's
        lock.release()

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for run_id in list(self._locks):
            self.release(run_id)
