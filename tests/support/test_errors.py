"""Messages quote wrong values briefly, whatever these are."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.support.errors import LONGEST_MESSAGE, MAX_CHARACTERS, ConfigError, brief
from ipl.support.extras import require

NESTED: list[Any] = ["lol"]
for _ in range(30):
    NESTED = [NESTED] * 9  # the whole repr has 9 ** 30 items


@pytest.mark.parametrize(
    "value",
    ["x" * 10**5, "\0" * 10**5, [0] * 10**6, 10**4000, 10**5000, NESTED, {1: "y" * 9999}],
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


def test_a_missing_package_is_named_with_its_extra() -> None:
    require("`ipl serve`", "serve", "json", "fastapi")
    with pytest.raises(ConfigError, match=r"nowhere.*ipl\[serve\]"):
        require("`ipl serve`", "serve", "json", "nowhere")
