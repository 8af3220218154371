"""Which files a call may name: those that the same browser tab uploaded, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ipl.apps.http_responses import error_response
from ipl.apps.limits import Limits, Refusal
from ipl.apps.request_body import limited_receive, limited_request, parse_json
from ipl.apps.workbench.image_classes import MAX_BYTES, MAX_IMAGES
from ipl.apps.workbench.sessions import Workbench
from ipl.support.errors import DataError

UPLOAD = "/gradio_api/upload"
SESSION = "x-ipl-session"  # the header in which page.js sends the key of the tab's session
CALL_LIMITS = Limits(max_bytes=4_000_000)
UPLOAD_LIMITS = Limits(max_bytes=MAX_BYTES, upload_seconds=300)
# A session may upload everything twice, for example to classify the images that it learnt from.
SESSION_BYTES, SESSION_FILES = 2 * MAX_BYTES, 2 * MAX_IMAGES


class FileAccess:
    """Records what each tab uploads, and refuses calls that name any other file.

    Gradio opens every path and fetches every URL in a call before a handler sees them; whether it
    checks them depends on how it was started.
    """

    def __init__(self, app: ASGIApp, workbench: Workbench) -> None:
        self.app, self.workbench = app, workbench

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        try:
            if scope["path"] == UPLOAD:
                receive, send = self._uploading(scope, receive, send)
            else:
                receive = await self._checked_call(scope, receive)
        except DataError as error:
            await error_response(403, str(error))(scope, receive, send)
        except Refusal as refusal:
            await error_response(refusal.status, refusal.sentence)(scope, receive, send)
        except ClientDisconnect:
            pass
        else:
            await self.app(scope, receive, send)

    async def _checked_call(self, scope: Scope, receive: Receive) -> Receive:
        """Returns a `receive` that repeats the body of a call, which names no other files."""
        body = await limited_request(Request(scope, receive), CALL_LIMITS).body()
        call = parse_json(body)
        if paths := list(named_paths(call)):
            self.workbench.session(str(call.get("session_hash"))).uploaded(paths)
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def repeated() -> Message:
            return next(messages, None) or await receive()

        return repeated

    def _uploading(self, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Returns a limited `receive`, and a `send` that notes the paths of the uploaded files."""
        key = Headers(scope=scope).get(SESSION, "")
        session = self.workbench.session(key)
        if len(session.received) >= SESSION_FILES:
            raise Refusal(413, _too_much())
        limited, status, answer = limited_receive(receive, UPLOAD_LIMITS), 0, b""

        async def counted() -> Message:
            try:
                message = await limited()
                session.received_bytes += len(message.get("body", b""))
                if session.received_bytes > SESSION_BYTES:
                    raise Refusal(413, _too_much())
            except Refusal as refusal:  # Gradio removes an unfinished upload after this error only
                raise MultiPartException(refusal.sentence) from None
            if message["type"] == "http.disconnect":
                raise MultiPartException("The connection was closed.")
            return message

        async def noted(message: Message) -> None:
            nonlocal status, answer
            status = message.get("status", status)
            answer += message.get("body", b"")
            complete = message["type"] == "http.response.body" and not message.get("more_body")
            if complete and status == 200:
                self.workbench.receive(key, [Path(path) for path in json.loads(answer)])
            await send(message)

        return counted, noted


def named_paths(call: Any) -> Iterator[str]:
    """Yields what the files in a call, at whatever depth, have as their path."""
    waiting = [call]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "path" in value:
                yield str(value["path"])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _too_much() -> str:
    return (
        f"At most {SESSION_FILES:,} files and {SESSION_BYTES // 10**6:,} MB can be uploaded from "
        "one tab; reload the page to start again."
    )
