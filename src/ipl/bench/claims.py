"""Claims: two processes that share an OUT folder never do the same run at the same time."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ipl.support.errors import IplError

try:
    import fcntl
except ImportError:  # a system without such locks: there, start one process for a folder
    fcntl = None  # type: ignore[assignment]

FILE = ".claims"


class Claims:
    """Locks on single bytes of one file, a byte for each run.

    The system releases them when their process ends, however it ends: none is ever stale.
    """

    def __init__(self, out: Path) -> None:
        path = out / FILE
        try:
            out.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise IplError(f"Cannot write {path}: {error.strerror or error}.") from error

    def take(self, run_id: str) -> bool:
        """Returns whether the run is ours now; False if another process is doing it."""
        if fcntl is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(run_id))
        except (BlockingIOError, PermissionError):  # what it raises depends on the system
            return False
        except OSError as error:
            raise IplError(
                f"The folder of {FILE} cannot be locked ({error.strerror}); put --out on a file "
                "system that has locks."
            ) from error
        return True

    def release(self, run_id: str) -> None:
        """Lets another process have the run."""
        if fcntl is not None:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(run_id))

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)


def _byte(run_id: str) -> int:
    """Returns the offset of a run's byte; the file need not be that long."""
    return int(hashlib.sha256(run_id.encode()).hexdigest()[:15], 16)
