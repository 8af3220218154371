"""The web application of a rating study: its page, its images, and the ratings it receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ipl.apps.hosts import is_allowed_host, is_same_origin
from ipl.apps.http_responses import (
    PROTECTION,
    answer_errors_as_json,
    error_response,
    security_policy,
    with_headers,
)
from ipl.apps.limits import Gate, Limits, Refusal
from ipl.apps.request_body import read_json
from ipl.display.page import style_sheet
from ipl.explain.ratings.raters import Raters, clean_name, key_of
from ipl.explain.ratings.study import PICTURES, RatingTask, Study, screens
from ipl.support.errors import ConfigError, DataError, IplError

MAX_CLASSES = 40  # class names of a task that the page shows
LIMITS = Limits(max_bytes=4096, concurrency=64, upload_seconds=10, answer_seconds=20)
# Another site cannot send this header without asking first, and gets no answer when it asks.
TOKEN = "x-ipl-rating"
HEADERS = {
    **security_policy(
        script_src="'self'",
        style_src="'self'",
        img_src="'self' data:",
        connect_src="'self'",
        form_action="'none'",
        base_uri="'none'",
    ),
    **PROTECTION,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class SiteGuard:
    """Refuses requests that come through another site, and protects every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope), scope["method"])
        app = self.app if refusal is None else error_response(403, refusal)
        await app(scope, receive, with_headers(send, HEADERS))

    def _refusal(self, headers: Headers, method: str) -> str | None:
        host = headers.get("host", "")
        if not is_allowed_host(host, self.hosts):
            return f"Host is {host[:60]!r}, which is not allowed; see `ipl rate --allow-host`."
        from_page = TOKEN in headers and is_same_origin(headers.get("origin"), host)
        if method not in ("GET", "HEAD") and not from_page:
            return "This request does not come from the page."
        return None


def create_rating_app(
    folder: Path,
    study: Study,
    raters: Raters,
    hosts: frozenset[str] | None = None,
    warn: Callable[[str], None] = print,
) -> FastAPI:
    """Returns the application for the study in a folder.

    `hosts` are the host names that requests may use, None allows any; `warn` is called with a
    message when a rating cannot be saved.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(SiteGuard, hosts=hosts)
    gate = Gate(LIMITS.concurrency)
    image_files = {image.file for task in study.tasks for image in task.pictures}
    pages = _page_files()

    @app.get("/")
    @app.get("/{name}")
    async def page(name: str = "page.html") -> Response:
        if name not in pages:
            raise Refusal(404, "Not found.")
        media_type, text = pages[name]
        return Response(text, media_type=media_type)

    @app.get("/pictures/{file}")
    def image(file: str) -> Response:
        if file not in image_files:
            raise Refusal(404, "Not found.")
        try:
            return Response((folder / PICTURES / file).read_bytes(), media_type="image/jpeg")
        except OSError:
            raise Refusal(404, "The image no longer exists.") from None

    @app.post("/begin")
    async def begin(request: Request) -> dict[str, Any]:
        with gate.enter():
            body = await read_json(request, LIMITS)
        name = clean_name(body.get("name"))
        raters.check_room(name)
        return _page_content(study, raters, name)

    @app.post("/rate")
    async def rate(request: Request) -> dict[str, int]:
        with gate.enter():
            body = await read_json(request, LIMITS)
            name, item, rating = (body.get(field) for field in ("name", "item", "rating"))
            try:
                done = await asyncio.to_thread(raters.rate, name, item, rating)
            except (ConfigError, DataError):
                raise
            except IplError as error:  # the disk is full, for example
                warn(f"A rating could not be saved. {error}")
                raise Refusal(
                    507, "Your answer cannot be saved; please tell the person who runs this page."
                ) from None
        return {"done": done}

    answer_errors_as_json(app)
    return app


def _page_files() -> dict[str, tuple[str, str]]:
    """Returns the media type and the text of each file of the page, the same for everyone."""
    folder = files("ipl.apps.rate") / "page"
    html, script, style = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.js", "page.css")
    )
    return {
        "page.html": ("text/html", html),
        "page.js": ("text/javascript", script),
        "style.css": ("text/css", style_sheet() + style),
    }


def _page_content(study: Study, raters: Raters, name: str) -> dict[str, Any]:
    """Returns all that a rater's page shows; nothing in it tells one list from another."""
    order = screens(study, key_of(name))
    return {
        "name": name,
        "screens": [{"task": task, "items": list(items)} for task, items in order],
        "tasks": [_task_content(task) for task in study.tasks],
        "words": {item: word for task in study.tasks for item, word in task.items.items()},
        "answers": raters.answers(name),
    }


def _task_content(task: RatingTask) -> dict[str, Any]:
    return {
        "classes": task.classes[:MAX_CLASSES],
        "more": max(0, len(task.classes) - MAX_CLASSES),
        "pictures": [vars(image) for image in task.pictures],
    }
