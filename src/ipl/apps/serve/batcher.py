"""Requests that arrive at the same time are computed together, by a few threads."""

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
    """Threads that take up to `size` waiting items and pass them to `work` in one call.

    The first item of a batch waits at most `wait` seconds for others. `work` returns a result or
    an exception for each item; an exception that it raises becomes the result of the whole batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        size: int,
        wait: float,
        workers: int = 1,
    ) -> None:
        self.work, self.size, self.wait = work, size, wait
        self.batches = 0  # calls of `work` so far
        self.items = 0  # items in them
        self._queue: SimpleQueue[tuple[Item, Future[Result]] | None] = SimpleQueue()
        self._closed = False
        self._lock = Lock()  # so that nothing is put behind the end of the queue
        self._taking = Lock()  # held while a batch is collected, so that it is not divided
        self._threads = [
            Thread(target=self._run, name=f"ipl-batcher-{number}", daemon=True)
            for number in range(workers)
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, item: Item) -> Future[Result]:
        """Returns the future result of one item."""
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("The batcher is closed.")
            self._queue.put((item, future))
        return future

    def close(self) -> None:
        """Finishes the waiting items, then ends the threads."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        for thread in self._threads:
            thread.join()

    @property
    def waiting(self) -> int:
        """Returns how many items wait for a batch, about."""
        return self._queue.qsize()

    @property
    def alive(self) -> bool:
        """Returns whether all threads are running."""
        return all(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        more = True
        while more:
            with self._taking:
                batch, more = self._take()
            # A client that gave up meanwhile has cancelled its future.
            batch = [pair for pair in batch if pair[1].set_running_or_notify_cancel()]
            if batch:
                self._compute(batch)

    def _take(self) -> tuple[list[tuple[Item, Future[Result]]], bool]:
        """Returns the next batch, and whether there may be another."""
        batch: list[tuple[Item, Future[Result]]] = []
        deadline = None
        while len(batch) < self.size:
            try:
                remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
                entry = self._queue.get(timeout=remaining)
            except Empty:
                break
            if entry is None:
                self._queue.put(None)  # for the other threads
                return batch, False
            batch.append(entry)
            deadline = deadline or time.monotonic() + self.wait
        return batch, True

    def _compute(self, batch: Sequence[tuple[Item, Future[Result]]]) -> None:
        results: Sequence[Result | Exception]
        with self._lock:
            self.batches += 1
            self.items += len(batch)
        try:
            results = self.work([item for item, _ in batch])
        except Exception as error:  # of whichever kind: the next batch may succeed
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
