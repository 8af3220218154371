"""Threads that take turns: one at a time, in order, and stopped at their next turn."""

from __future__ import annotations

import threading

import pytest

from ipl.support.turns import StoppedError, Turns, no_turn, pass_turn, takes_turns


def run_all(*targets: threading.Thread) -> None:
    for thread in targets:
        thread.start()
    for thread in targets:
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_outside_of_turns_nothing_happens() -> None:
    assert not takes_turns()
    pass_turn()
    with no_turn():
        pass


def test_one_thread_runs_at_a_time_and_all_in_their_order() -> None:
    turns, begun, seen, inside = Turns(), set[str](), list[str](), list[str]()

    def work(name: str) -> None:
        with turns:
            assert takes_turns()
            begun.add(name)
            while len(begun) < 3:
                pass_turn()
            for _ in range(50):
                inside.append(name)
                assert inside == [name]
                seen.append(name)
                inside.remove(name)
                pass_turn()
        assert not takes_turns()

    run_all(*(threading.Thread(target=work, args=(name,)) for name in "abc"))
    assert len(set(seen[:3])) == 3
    assert seen == 50 * seen[:3]


def test_a_turn_that_is_given_back_is_anothers() -> None:
    turns, given, taken = Turns(), threading.Event(), threading.Event()
    seen = []

    def waits() -> None:
        with turns:
            given.set()
            with no_turn():
                seen.append(taken.wait(timeout=20))

    def takes() -> None:
        given.wait(timeout=20)
        with turns:
            taken.set()

    run_all(threading.Thread(target=waits), threading.Thread(target=takes))
    assert seen == [True]


def test_stopped_threads_end_at_their_next_turn() -> None:
    turns, ended = Turns(), list[str]()

    def pass_for_ever() -> None:
        with turns:
            while True:
                pass_turn()

    def work() -> None:
        with pytest.raises(StoppedError):
            pass_for_ever()
        ended.append("ended")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    turns.stopped = True
    for thread in threads:
        thread.join(timeout=20)
    assert ended == ["ended"] * 3
