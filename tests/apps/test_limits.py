"""Limits are checked when they are built."""

from __future__ import annotations

import pytest

from ipl.apps.limits import Limits
from ipl.support.errors import ConfigError


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_pixels", 10**9, "1 to 89478485"),
        ("max_classes", 1, "2 or more"),
        ("answer_seconds", float("nan"), "0.1 or more"),
        ("upload_seconds", float("inf"), "0.1 or more"),
        ("batch", 65, "1 to 64"),
        ("wait_ms", -1, "0 or more"),
    ],
)
def test_a_value_out_of_range_is_named(field: str, value: float, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; it must be {allowed}."):
        Limits(**{field: value})  # type: ignore[arg-type]
