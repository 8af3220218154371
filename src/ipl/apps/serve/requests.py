"""From an HTTP request to what it asks: nothing is read that is too long or takes too long."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from ipl.apps.limits import Limits, Refusal

FIELDS = ("image", "classes", "top")
TOP = 5


@dataclass(frozen=True)
class PredictRequest:
    """An image's bytes, the classes to tell apart (None: the prompt's own), how many to return."""

    image: bytes
    classes: tuple[str, ...] | None
    top: int


async def read_request(request: Request, limits: Limits) -> Callable[[], PredictRequest]:
    """Returns what turns the body, read in time and within its limit, into what it asks.

    That may take a while and knows no waiting: it is for another thread.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "multipart/form-data"):
        raise Refusal(
            415, f"Content-Type is {kind!r}; allowed are multipart/form-data and application/json."
        )
    request = within(request, limits)
    try:
        if kind == "application/json":
            body = await request.body()
            return lambda: _from_json(body, limits)
        form = request.form(
            max_files=1, max_fields=limits.max_classes + 2, max_part_size=limits.max_bytes
        )
        async with form as fields:
            given = fields.multi_items()
            files = {name: await v.read() for name, v in given if isinstance(v, UploadFile)}
            texts = [(name, value) for name, value in given if isinstance(value, str)]
        return lambda: _from_form(files, texts, limits)
    except ClientDisconnect:
        raise _gone() from None


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """Returns the JSON object in a request, read in time and within its limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"Content-Type is {kind!r}; it must be application/json.")
    try:
        return _object(await within(request, limits).body())
    except ClientDisconnect:
        raise _gone() from None


def within(request: Request, limits: Limits) -> Request:
    """Returns the request, whose body can be read no further than its limits."""
    _check_announced(request.headers.get("content-length"), limits.max_bytes)
    return Request(request.scope, bounded(request.receive, limits))


def bounded(receive: Receive, limits: Limits) -> Receive:
    """Returns a `receive` that counts the body's bytes and watches the clock."""
    seen, until = 0, asyncio.get_running_loop().time() + limits.upload_seconds

    async def read() -> Message:
        nonlocal seen
        left = until - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), left)
        except asyncio.TimeoutError:
            raise Refusal(
                408, f"The request had not come whole after {limits.upload_seconds:g} s."
            ) from None
        seen += len(message.get("body", b""))
        if seen > limits.max_bytes:
            raise _too_large(limits.max_bytes)
        return message

    return read


def _check_announced(length: str | None, most: int) -> None:
    # A client that says less than it sends is stopped while the body is read.
    if length is not None and length.isascii() and length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"The request is larger than {most:,} bytes.")


def _gone() -> Refusal:
    return Refusal(400, "The connection was closed before the whole request had come.")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not JSON.") from None
    if not isinstance(value, dict):
        raise Refusal(422, "The request must be a JSON object.")
    return value


def _from_json(body: bytes, limits: Limits) -> PredictRequest:
    value = _object(body)
    _check_fields(value)
    text = value.get("image")
    if not isinstance(text, str):
        raise Refusal(422, "image is missing; give the image's bytes in base64.")
    try:
        image = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(
            400, "image is not base64; paths and URLs are not opened, send the image itself."
        ) from None
    return _asked(image, value.get("classes"), value.get("top", TOP), limits)


def _from_form(
    files: dict[str, bytes], texts: list[tuple[str, str]], limits: Limits
) -> PredictRequest:
    _check_fields([*files, *(name for name, _ in texts)])
    if "image" not in files:
        sent = "is text" if any(name == "image" for name, _ in texts) else "is missing"
        raise Refusal(
            422, f"image {sent}; paths and URLs are not opened, upload the image as a file."
        )
    if extra := files.keys() - {"image"}:
        raise Refusal(422, f"{extra.pop()} is a file; it must be text.")
    names: list[str] | None = [text for name, text in texts if name == "classes"]
    if names is not None and len(names) <= 1:  # "a,b,c"; an empty field of a form says nothing
        names = names[0].split(",") if names and names[0].strip() else None
    tops = [text.strip() for name, text in texts if name == "top" and text.strip()] or [str(TOP)]
    top = int(tops[-1]) if tops[-1].isascii() and tops[-1].isdigit() else tops[-1]
    return _asked(files["image"], names, top, limits)


def _check_fields(names: Sequence[str] | dict[str, Any]) -> None:
    for name in names:
        if name not in FIELDS:
            raise Refusal(422, f"{name[:40]!r} is no field; allowed are {', '.join(FIELDS)}.")


def _asked(image: bytes, classes: Any, top: Any, limits: Limits) -> PredictRequest:
    if not image:
        raise Refusal(422, "image is empty.")
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        given = f"the text {top[:40]!r}" if isinstance(top, str) else json.dumps(top)[:40]
        raise Refusal(422, f"top is {given}; it must be a whole number from 1.")
    return PredictRequest(image, None if classes is None else _class_list(classes, limits), top)


def _class_list(classes: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise Refusal(422, "classes must be a list of names.")
    if not 2 <= len(classes) <= limits.max_classes:
        raise Refusal(
            422, f"classes holds {len(classes)} names; allowed are 2 to {limits.max_classes}."
        )
    for position, name in enumerate(classes, start=1):
        if len(name) > limits.max_text:
            raise Refusal(
                422,
                f"Class {position} has a name of {len(name)} characters; at most "
                f"{limits.max_text} are allowed.",
            )
    return tuple(name.strip() for name in classes)
