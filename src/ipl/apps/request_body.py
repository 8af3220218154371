"""Reads the body of a request: no more bytes and no more time than its limits allow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import Request
from starlette.types import Message, Receive

from ipl.apps.limits import Limits, Refusal


def parse_json(body: bytes) -> dict[str, Any]:
    """Returns the JSON object in a body."""
    try:
        value = json.loads(body, parse_int=_parse_int)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not valid JSON.") from None
    if not isinstance(value, dict):
        raise Refusal(422, "The request must be a JSON object.")
    return value


def _parse_int(digits: str) -> int | float:
    """Returns a number; Python refuses to read integers of thousands of digits."""
    return int(digits) if len(digits) < 20 else float(digits)


def limited_request(request: Request, limits: Limits) -> Request:
    """Returns the request with a body that cannot be read beyond its limits."""
    length = request.headers.get("content-length")
    # A client that announces less than it sends is stopped while the body is read.
    if length is not None and length.isascii() and length.isdigit():
        _check_size(int(length[:20]), limits)
    return Request(request.scope, limited_receive(request.receive, limits))


def limited_receive(receive: Receive, limits: Limits) -> Receive:
    """Returns a `receive` that counts the bytes of the body and watches the clock."""
    size, deadline = 0, asyncio.get_running_loop().time() + limits.upload_seconds

    async def limited() -> Message:
        nonlocal size
        remaining = deadline - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), remaining)
        except asyncio.TimeoutError:
            raise Refusal(
                408, f"The request was not complete after {limits.upload_seconds:g} s."
            ) from None
        size += len(message.get("body", b""))
        _check_size(size, limits)
        return message

    return limited


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.max_bytes:
        raise Refusal(413, f"The request is larger than {limits.max_bytes:,} bytes.")
