"""Threads that take turns: one runs at a time, and passes on where it has given a GPU its work.

A GPU computes while the processor is already busy with something else, so several trainings can
keep it busy from one process. Threads that run freely would trip over each other: over features in
memory, over recordings of the GPU's work. These switch only where the code says so.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class StoppedError(BaseException):
    """Ends a thread that takes turns, from its next turn on; no error of its own."""


class Turns:
    """Lets one of several threads run at a time, in the order in which they ask for it.

    A thread runs its work inside `with turns:`; in it, `pass_turn` and `no_turn` of this module
    refer to these turns. Elsewhere they do nothing.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> Turns:
        self._take()
        _thread.turns = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _thread.turns = None
        self._give()

    def pass_on(self) -> None:
        """Lets every thread that waits run first; raises StoppedError if all are to end."""
        if self._waiting:
            self._give()
            self._take()
        if self.stopped:
            raise StoppedError

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Lets others run during the block."""
        self._give()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # until the one before gives it to us

    def _give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


class _Thread(threading.local):
    turns: Turns | None = None


_thread = _Thread()


def takes_turns() -> bool:
    """Returns whether this thread is one of several that take turns."""
    return _thread.turns is not None


def pass_turn() -> None:
    """Lets the other threads run, if this one takes turns."""
    if _thread.turns is not None:
        _thread.turns.pass_on()


@contextmanager
def no_turn() -> Iterator[None]:
    """Lets the other threads run during the block, if this one takes turns."""
    if _thread.turns is None:
        yield
    else:
        with _thread.turns.given_back():
            yield
