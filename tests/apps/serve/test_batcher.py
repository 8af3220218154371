"""Waiting items are computed together, by one thread or several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Barrier, Event
from typing import Any

import pytest

from ipl.apps.serve.batcher import Batcher

SECONDS = 60  # timeout


@pytest.fixture
def start() -> Iterator[Callable[..., Batcher[Any, Any]]]:
    """Returns a starter of batchers that are closed in the end."""
    running: list[Batcher[Any, Any]] = []

    def call(
        work: Callable[..., Any], size: int = 4, wait: float = 0.0, workers: int = 1
    ) -> Batcher[Any, Any]:
        running.append(Batcher(work, size, wait, workers))
        running[-1].start()
        return running[-1]

    yield call
    for batcher in running:
        batcher.close()


def test_what_waits_is_computed_together_and_in_order(start: Callable[..., Any]) -> None:
    free, batches = Event(), []

    def work(items: Sequence[int]) -> list[int]:
        free.wait(SECONDS)
        batches.append(list(items))
        return [10 * item for item in items]

    batcher = start(work, size=3)
    first = batcher.submit(0)
    while not batcher.batches:  # it is being worked on, so that the others have to wait
        time.sleep(0.001)
    others = [batcher.submit(item) for item in range(1, 7)]
    assert others.pop(1).cancel()  # of a client that gave up: it is not computed
    free.set()
    assert [f.result(SECONDS) for f in (first, *others)] == [0, 10, 30, 40, 50, 60]
    assert batches == [[0], [1, 3], [4, 5, 6]]
    assert (batcher.batches, batcher.items) == (3, 6)


def test_several_threads_compute_whole_batches_at_the_same_time(start: Callable[..., Any]) -> None:
    both = Barrier(2)  # it breaks, and the test fails, unless two batches are computed at once

    def work(items: Sequence[int]) -> list[int]:
        both.wait(SECONDS)
        return [len(items)] * len(items)

    batcher = start(work, size=2, wait=SECONDS, workers=2)
    results = [batcher.submit(item) for item in range(4)]
    assert [f.result(SECONDS) for f in results] == [2, 2, 2, 2]
    assert (batcher.batches, batcher.items) == (2, 4)
    batcher.close()
    assert not any(thread.is_alive() for thread in batcher._threads)


def test_a_failure_is_that_of_its_item_or_its_batch(start: Callable[..., Any]) -> None:
    def work(items: Sequence[int]) -> list[Any]:
        return [ValueError("no") if item < 0 else 1 // item for item in items]

    batcher = start(work, size=2, wait=SECONDS)
    bad, good = batcher.submit(-1), batcher.submit(1)
    assert good.result(SECONDS) == 1
    assert isinstance(bad.exception(SECONDS), ValueError)
    both = batcher.submit(0), batcher.submit(1)
    for each in both:
        assert isinstance(each.exception(SECONDS), ZeroDivisionError)
    assert batcher.alive


def test_closing_finishes_what_waits_and_takes_no_more(start: Callable[..., Any]) -> None:
    batcher = start(lambda items: [time.sleep(0.02) or item for item in items], size=1)
    waiting = [batcher.submit(item) for item in range(5)]
    batcher.close()
    assert [f.result(0) for f in waiting] == [0, 1, 2, 3, 4]
    assert not batcher.alive
    with pytest.raises(RuntimeError, match="closed"):
        batcher.submit(9)
    batcher.close()  # a second time changes nothing
