"""The page on which people rate, and the addresses that it asks. Needs the extra `ipl[serve]`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ipl.apps.http_errors import problem, say_errors_in_json
from ipl.apps.limits import Gate, Limits, Refusal
from ipl.apps.serve.requests import read_object
from ipl.apps.server import is_called
from ipl.display.page import style_sheet
from ipl.explain.ratings.raters import Raters, clean_name, key_of
from ipl.explain.ratings.study import PICTURES, RatingTask, Study, screens
from ipl.support.errors import ConfigError, DataError, IplError

CLASSES = 40  # names that a page shows of a task
LIMITS = Limits(max_bytes=4096, concurrency=64, upload_seconds=10, answer_seconds=20)
# No other page can send this without asking first, and is never answered when it asks.
TOKEN = "x-ipl-rating"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses requests that come through another page, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refusal(Headers(scope=scope), scope["method"])
        app = self.app if refused is None else problem(403, refused)
        await app(scope, receive, answer)

    def _refusal(self, headers: Headers, method: str) -> str | None:
        host = headers.get("host", "")
        if not is_called(host, self.hosts):
            return f"Host is {host[:60]!r}; this page is only for this machine."
        if method not in ("GET", "HEAD") and TOKEN not in headers:
            return "This request does not come from the page."
        return None


def create_rating_app(
    folder: Path,
    study: Study,
    raters: Raters,
    hosts: frozenset[str] | None = None,
    tell: Callable[[str], None] = print,
) -> FastAPI:
    """Returns the application for a study.

    `hosts` are the names it may be called by, None any; `tell` is told of answers that could not
    be kept.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, hosts=hosts)
    gate = Gate(LIMITS.concurrency)
    known = {shown.file for task in study.tasks for shown in task.pictures}
    pages = _pages()

    @app.get("/")
    @app.get("/{name}")
    async def page(name: str = "page.html") -> Response:
        if name not in pages:
            raise Refusal(404, "Not found.")
        kind, text = pages[name]
        return Response(text, media_type=kind)

    @app.get("/pictures/{file}")
    def picture(file: str) -> Response:
        if file not in known:
            raise Refusal(404, "Not found.")
        try:
            return Response((folder / PICTURES / file).read_bytes(), media_type="image/jpeg")
        except OSError:
            raise Refusal(404, "The picture is no longer there.") from None

    @app.post("/begin")
    async def begin(request: Request) -> dict[str, Any]:
        with gate.enter():
            asked = await read_object(request, LIMITS)
        name = clean_name(asked.get("name"))
        raters.check_room(name)
        return _asked(study, raters, name)

    @app.post("/rate")
    async def rate(request: Request) -> dict[str, int]:
        with gate.enter():
            asked = await read_object(request, LIMITS)
            name, item, rating = (asked.get(field) for field in ("name", "item", "rating"))
            try:
                done = await asyncio.to_thread(raters.rate, name, item, rating)
            except (ConfigError, DataError):
                raise
            except IplError as error:  # a disk that is full
                tell(f"An answer could not be kept. {error}")
                raise Refusal(507, "Please tell who runs this page: it cannot write.") from None
        return {"done": done}

    say_errors_in_json(app)
    return app


def _pages() -> dict[str, tuple[str, str]]:
    """Returns the files of the page with their kinds; they are the same for everyone."""
    own = files("ipl.apps.rate") / "page"
    texts = {name: (own / name).read_text(encoding="utf-8") for name in ("page.html", "page.js")}
    style = style_sheet() + (own / "page.css").read_text(encoding="utf-8")
    return {
        "page.html": ("text/html", texts["page.html"]),
        "page.js": ("text/javascript", texts["page.js"]),
        "style.css": ("text/css", style),
    }


def _asked(study: Study, raters: Raters, name: str) -> dict[str, Any]:
    """Returns all that a rater's page shows: nothing in it tells one list from another."""
    order = screens(study, key_of(name))
    return {
        "name": name,
        "screens": [{"task": task, "items": list(items)} for task, items in order],
        "tasks": [_shown(task) for task in study.tasks],
        "words": {item: word for task in study.tasks for item, word in task.items.items()},
        "answers": raters.answers(name),
    }


def _shown(task: RatingTask) -> dict[str, Any]:
    return {
        "classes": task.classes[:CLASSES],
        "more": max(0, len(task.classes) - CLASSES),
        "pictures": [vars(shown) for shown in task.pictures],
    }
