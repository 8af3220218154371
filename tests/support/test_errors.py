"""Messages quote wrong values briefly, whatever these are."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.support.errors import LONGEST_MESSAGE, MAX_CHARACTERS, ConfigError, brief, shorten


def _nested(levels: int) -> list[Any]:
    value: list[Any] = ["lol"]
    for _ in range(levels):
        value = [value] * 9  # the whole repr has 9 ** levels items
    return value


@pytest.mark.parametrize("value", [0, -2.5, "frsh", None, True, ["a", 1], {"k": [3]}, "y" * 60])
def test_short_values_are_quoted_whole(value: Any) -> None:
    assert brief(value) == repr(value)


@pytest.mark.parametrize(
    "value",
    ["x" * 10**5, "\0" * 10**5, [0] * 10**6, 10**4000, 10**5000, _nested(30), {1: "y" * 9999}],
    ids=["text", "escapes", "list", "digits", "more digits", "nested", "object"],
)  # fmt: skip
def test_long_values_are_cut(value: Any) -> None:
    assert 0 < len(brief(value)) <= MAX_CHARACTERS + len("...")


@pytest.mark.parametrize("value", ["x" * 100_000, "x y " * 25_000, "x\n" * 50_000])
def test_a_message_keeps_its_ends_and_loses_its_middle(value: str) -> None:
    message = str(ConfigError(f"name is {value!r}; it must be short."))
    assert len(message) <= LONGEST_MESSAGE + len("...")
    assert message.startswith("name is 'x")
    assert message.endswith("it must be short.")


def test_a_message_with_a_long_path_stays_whole() -> None:
    message = f"There is no folder {'/a-folder' * 100}."
    assert shorten(message) == message
