"""Values that are made once, and dropped where there is no room for them."""

from __future__ import annotations

from ipl.support.recent_values import RecentValues


def test_the_least_recently_used_make_room() -> None:
    kept, made = RecentValues(), list[str]()

    def ask(key: str, size: int, room: int = 10) -> str:
        return kept.get_or_make(key, lambda: (made.append(key), key)[1], size, room)

    assert [ask(key, 4) for key in "abab"] == list("abab")
    assert made == ["a", "b"]
    assert kept.get("a") == "a"  # and b has not been used for longer
    ask("c", 4)
    assert [kept.get(key) for key in "abc"] == ["a", None, "c"]
    assert ask("large", 11) == "large"
    assert [kept.get(key) for key in ("a", "c", "large")] == [None, None, None]
