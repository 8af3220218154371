"""Bodies are read up to their limit of bytes and of time, and no further."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ipl.apps.limits import Limits, Refusal
from ipl.apps.request_body import limited_receive, parse_json


def test_reading_stops_at_the_limit_and_not_at_the_end() -> None:
    messages = 0

    async def endless() -> dict[str, Any]:
        nonlocal messages
        messages += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def read() -> None:
        receive = limited_receive(endless, Limits(max_bytes=10_500))
        while True:
            await receive()

    with pytest.raises(Refusal, match="larger than 10,500 bytes") as caught:
        asyncio.run(read())
    assert (caught.value.status, messages) == (413, 11)


def test_reading_stops_after_its_time() -> None:
    async def drop_by_drop() -> dict[str, Any]:
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        receive = limited_receive(drop_by_drop, Limits(upload_seconds=0.2))
        while True:
            await receive()

    with pytest.raises(Refusal, match="was not complete after 0.2 s") as caught:
        asyncio.run(read())
    assert caught.value.status == 408


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[1]", 422), (b"[" * 100_000, 400), (b"\xff\xfe", 400), (b"9" * 10_000, 422)],
)
def test_what_is_not_an_object_is_refused(body: bytes, status: int) -> None:
    with pytest.raises(Refusal) as caught:
        parse_json(body)
    assert caught.value.status == status
    assert parse_json(b'{"a": [1]}') == {"a": [1]}
