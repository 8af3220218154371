"""Limits are checked when they are built, and a gate counts requests in and out."""

from __future__ import annotations

import pytest

from ipl.apps.limits import Gate, Limits, Refusal
from ipl.support.errors import ConfigError


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_bytes", 0, "1 or more"),
        ("max_pixels", 10**9, "1 to 89478485"),
        ("max_classes", 1, "2 or more"),
        ("upload_seconds", float("inf"), "0.1 or more"),
        ("answer_seconds", float("nan"), "0.1 or more"),
        ("decode_seconds", 0, "0.1 or more"),
        ("batch", 65, "1 to 64"),
        ("wait_ms", -1, "0 or more"),
    ],
)
def test_a_value_out_of_range_is_named(field: str, value: float, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; it must be {allowed}."):
        Limits(**{field: value})  # type: ignore[arg-type]


def test_a_full_gate_refuses_until_a_request_leaves() -> None:
    gate = Gate(1)
    with gate.enter():
        with pytest.raises(Refusal, match="1 requests are being answered") as caught, gate.enter():
            raise AssertionError("a second request was let in")
        assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
        assert gate.inside == 1
    with pytest.raises(ZeroDivisionError), gate.enter():
        raise ZeroDivisionError
    assert gate.inside == 0
