"""Values that are made once, and dropped where there is no room for them."""

from __future__ import annotations

import threading
import time

from ipl.support.recent_values import RecentValues


def test_the_least_recently_used_make_room() -> None:
    kept, made = RecentValues(), list[str]()

    def ask(key: str, size: int, room: int = 10) -> str:
        return kept.keep(key, lambda: (made.append(key), key)[1], size, room)

    assert [ask(key, 4) for key in "abab"] == list("abab")
    assert made == ["a", "b"]
    assert kept.get("a") == "a"  # and b has not been used for longer
    ask("c", 4)
    assert [kept.get(key) for key in "abc"] == ["a", None, "c"]
    assert ask("large", 11) == "large"
    assert [kept.get(key) for key in ("a", "c", "large")] == [None, None, None]


def test_of_two_threads_one_makes_it() -> None:
    kept, made = RecentValues(), list[int]()

    def make() -> str:
        made.append(1)
        time.sleep(0.02)  # so that the others come in between
        return kept.keep("part", lambda: "part", 1, 9) + " of a whole"

    threads = [threading.Thread(target=lambda: kept.keep("whole", make, 1, 9)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), kept.get("whole")) == (1, "part of a whole")
