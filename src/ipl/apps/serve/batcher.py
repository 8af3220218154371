"""Requests that come in at the same time are computed together, by one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """A thread that takes what is waiting, up to `size` items, and works on it in one call.

    The first item of a batch waits at most `wait` seconds for others. `work` returns a result or
    an exception for each item; what it raises itself becomes the result of the whole batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        size: int,
        wait: float,
    ) -> None:
        self.work, self.size, self.wait = work, size, wait
        self.batches = 0  # calls of `work` so far
        self.items = 0  # items in them
        self._queue: SimpleQueue[tuple[Item, Future[Result]] | None] = SimpleQueue()
        self._closed = False
        self._lock = Lock()  # so that nothing is put behind the end of the queue
        self._thread = Thread(target=self._run, name="ipl-batcher", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, item: Item) -> Future[Result]:
        """Returns the result to come of one item."""
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("The batcher is closed.")
            self._queue.put((item, future))
        return future

    def close(self) -> None:
        """Finishes what is waiting, then ends the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Returns whether there is a thread that takes items."""
        return self._thread.is_alive()

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            # Whoever asked may have given up meanwhile.
            batch = [(item, future) for item, future in batch if _still_wanted(future)]
            if batch:
                self._compute(batch)

    def _take(self) -> tuple[list[tuple[Item, Future[Result]]], bool]:
        """Returns the next batch, and whether there may be another."""
        batch: list[tuple[Item, Future[Result]]] = []
        until = None
        while len(batch) < self.size:
            try:
                left = None if until is None else max(0.0, until - time.monotonic())
                entry = self._queue.get(timeout=left)
            except Empty:
                break
            if entry is None:
                return batch, False
            batch.append(entry)
            until = until or time.monotonic() + self.wait
        return batch, True

    def _compute(self, batch: Sequence[tuple[Item, Future[Result]]]) -> None:
        results: Sequence[Result | Exception]
        self.batches += 1
        self.items += len(batch)
        try:
            results = self.work([item for item, _ in batch])
        except Exception as error:  # whatever it is, the next batch may be fine
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def _still_wanted(future: Future[Result]) -> bool:
    return future.set_running_or_notify_cancel()
