"""From the body of `POST /predict`, a form or JSON, to the image, classes and count it names."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from ipl.apps.limits import Limits, Refusal
from ipl.apps.request_body import limited_request, parse_json
from ipl.display.formatting import several

FIELDS = ("image", "classes", "top")
DEFAULT_TOP, MAX_TOP = 5, 1_000_000


@dataclass(frozen=True)
class PredictRequest:
    """The bytes of an image, its possible classes (None: the prompt's), how many to return."""

    image: bytes
    classes: tuple[str, ...] | None
    top: int


async def read_request(request: Request, limits: Limits) -> Callable[[], PredictRequest]:
    """Reads the body of a request; returns a function that parses it.

    Parsing may take a while and awaits nothing, so it is for another thread.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "multipart/form-data"):
        raise Refusal(
            415, f"Content-Type is {kind!r}; allowed are multipart/form-data and application/json."
        )
    request = limited_request(request, limits)
    try:
        if kind == "application/json":
            body = await request.body()
            return lambda: _parse_json(body, limits)
        form = request.form(
            max_files=1, max_fields=limits.max_classes + 2, max_part_size=limits.max_bytes
        )
        async with form as fields:
            items = fields.multi_items()
            files = {name: await v.read() for name, v in items if isinstance(v, UploadFile)}
            texts = [(name, value) for name, value in items if isinstance(value, str)]
    except ClientDisconnect:
        raise Refusal(400, "The connection was closed before the request was complete.") from None
    return lambda: _parse_form(files, texts, limits)


def _parse_json(body: bytes, limits: Limits) -> PredictRequest:
    values = parse_json(body)
    _check_fields(values)
    text = values.get("image")
    if not isinstance(text, str):
        raise Refusal(422, "image is missing; give the image's bytes in base64.")
    try:
        image = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(
            400, "image is not base64; paths and URLs are not opened, send the image itself."
        ) from None
    return _check(image, values.get("classes"), values.get("top", DEFAULT_TOP), limits)


def _parse_form(
    files: dict[str, bytes], texts: list[tuple[str, str]], limits: Limits
) -> PredictRequest:
    _check_fields([*files, *(name for name, _ in texts)])
    if "image" not in files:
        state = "is text" if any(name == "image" for name, _ in texts) else "is missing"
        raise Refusal(
            422, f"image {state}; paths and URLs are not opened, upload the image as a file."
        )
    if extra := files.keys() - {"image"}:
        raise Refusal(422, f"{extra.pop()} is a file; it must be text.")
    names: list[str] | None = [text for name, text in texts if name == "classes"]
    if names is not None and len(names) <= 1:  # "a,b,c"; an empty field of a form says nothing
        names = names[0].split(",") if names and names[0].strip() else None
    tops = [text.strip() for name, text in texts if name == "top" and text.strip()]
    last = tops[-1] if tops else str(DEFAULT_TOP)
    top = int(last) if last.isascii() and last.isdigit() and len(last) < 20 else last
    return _check(files["image"], names, top, limits)


def _check_fields(names: Iterable[str]) -> None:
    for name in names:
        if name not in FIELDS:
            raise Refusal(
                422, f"The field {name[:40]!r} is unknown; allowed are {', '.join(FIELDS)}."
            )


def _check(image: bytes, classes: Any, top: Any, limits: Limits) -> PredictRequest:
    """Returns the request with these values; raises Refusal if one of them is not allowed."""
    if not image:
        raise Refusal(422, "image is empty.")
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= MAX_TOP:
        value = f"the text {top[:40]!r}" if isinstance(top, str) else json.dumps(top)[:40]
        raise Refusal(422, f"top is {value}; it must be a whole number from 1 to {MAX_TOP:,}.")
    return PredictRequest(image, None if classes is None else _class_names(classes, limits), top)


def _class_names(classes: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise Refusal(422, "classes must be a list of names.")
    if not 2 <= len(classes) <= limits.max_classes:
        raise Refusal(
            422,
            f"classes has {several(len(classes), 'name')}; allowed are 2 to {limits.max_classes}.",
        )
    for number, name in enumerate(classes, start=1):
        if len(name) > limits.max_text:
            raise Refusal(
                422,
                f"Class {number} has a name of {len(name)} characters; at most "
                f"{limits.max_text} are allowed.",
            )
    return tuple(name.strip() for name in classes)
