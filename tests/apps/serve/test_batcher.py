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
    others = [batcher.submit(item) for item in range(1, 6)]
    free.set()
    assert [f.result(SECONDS) for f in (first, *others)] == [0, 10, 20, 30, 40, 50]
    assert batches == [[0], [1, 2, 3], [4, 5]]
    assert (batcher.batches, batcher.items) == (3, 6)


def test_an_item_waits_for_others_but_not_for_ever(start: Callable[..., Any]) -> None:
    batcher = start(lambda items: [len(items)] * len(items), size=2, wait=SECONDS)
    pair = [batcher.submit(0), batcher.submit(1)]
    assert [f.result(SECONDS) for f in pair] == [2, 2]
    short = start(lambda items: [len(items)] * len(items), size=2, wait=0.05)
    assert short.submit(0).result(SECONDS) == 1


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


def test_one_failure_is_not_the_others(start: Callable[..., Any]) -> None:
    def work(items: Sequence[int]) -> list[Any]:
        return [ValueError("no") if item < 0 else item for item in items]

    batcher = start(work, size=2, wait=SECONDS)
    bad, good = batcher.submit(-1), batcher.submit(1)
    assert good.result(SECONDS) == 1
    assert isinstance(bad.exception(SECONDS), ValueError)


def test_a_batch_that_raises_does_not_end_the_thread(start: Callable[..., Any]) -> None:
    batcher = start(lambda items: [1 // items[0]])
    assert isinstance(batcher.submit(0).exception(SECONDS), ZeroDivisionError)
    assert batcher.alive
    assert batcher.submit(1).result(SECONDS) == 1


def test_cancelled_items_are_not_computed(start: Callable[..., Any]) -> None:
    free, computed = Event(), []

    def work(items: Sequence[int]) -> Sequence[int]:
        free.wait(SECONDS)
        computed.extend(items)
        return items

    batcher = start(work)
    first = batcher.submit(0)
    while not batcher.batches:
        time.sleep(0.001)
    cancelled, other = batcher.submit(1), batcher.submit(2)
    assert cancelled.cancel()
    free.set()
    assert [first.result(SECONDS), other.result(SECONDS)] == [0, 2]
    assert computed == [0, 2]


def test_closing_finishes_what_waits_and_takes_no_more(start: Callable[..., Any]) -> None:
    batcher = start(lambda items: [time.sleep(0.02) or item for item in items], size=1)
    waiting = [batcher.submit(item) for item in range(5)]
    batcher.close()
    assert [f.result(0) for f in waiting] == [0, 1, 2, 3, 4]
    assert not batcher.alive
    with pytest.raises(RuntimeError, match="closed"):
        batcher.submit(9)
    batcher.close()  # a second time changes nothing
