"""The page on a socket: nothing but what it needs is answered, and it ends cleanly."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
import uvicorn
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from ipl.apps.server import ending, is_called, names_of
from ipl.apps.workbench.page import build_page
from ipl.apps.workbench.style import css, theme
from ipl.apps.workbench.workbench import Workbench

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

API = "/gradio_api/"
FILE = API + "file="
PAGES = {"/", "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json"}
CALLS = {"queue/join", "queue/data", "upload", "upload_progress", "cancel", "reset", "app_id"}
CALLS |= {"startup-events", "info"}
FOLDERS = ("/assets/", "/static/", API + "heartbeat/")
SECONDS_BETWEEN_BEATS = "2"  # after which a browser that has gone is noticed
SECONDS_TO_END = 1


class RequestFilter:
    """Lets through what the page asks for; Gradio would answer, fetch and serve more than that."""

    def __init__(self, app: Any, inbox: Path, names: frozenset[str] | None) -> None:
        """Takes the folder whose files may be served, and the names we go by; None is any."""
        self.app, self.inbox, self.names = app, inbox.resolve(), names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or passes on."""
        if scope["type"] == "http":
            if not self._known(scope["path"]):
                await PlainTextResponse("Not here.", 404)(scope, receive, send)
                return
            if not self._from_here(scope):
                await PlainTextResponse("Not for this site.", 403)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _known(self, path: str) -> bool:
        if path.startswith(FILE):
            try:
                return Path(path.removeprefix(FILE)).resolve().is_relative_to(self.inbox)
            except (OSError, ValueError):
                return False
        inside = path.removeprefix(API) in CALLS if path.startswith(API) else path in PAGES
        return inside or path.startswith(FOLDERS)

    def _from_here(self, scope: Scope) -> bool:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not is_called(host, self.names):
            return False
        origin = headers.get(b"origin")
        return origin is None or urlsplit(origin).netloc == host


class _Server(uvicorn.Server):
    """Says when it is up, and lets the fits go when it ends."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], end: Callable[[], None]):
        super().__init__(config)
        self._ready, self._end = ready, end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what is under way."""
        self._end()
        await super().shutdown(sockets)


def make_app(bench: Workbench, names: frozenset[str] | None) -> tuple[Any, Any]:
    """Returns the application, and Gradio's own inside it."""
    app = gr.mount_gradio_app(
        FastAPI(docs_url=None, redoc_url=None, openapi_url=None),
        build_page(bench),
        path="/",
        footer_links=[],
        run_history=False,
        max_file_size=bench.limits.max_bytes,
        show_error=False,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        pwa=False,
        theme=theme(),
        css=css(),
    )
    inner = app.routes[-1].app
    return RequestFilter(app, bench.inbox, names), inner


def run_workbench(
    bench: Workbench, bound: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Serves the page until Ctrl-C or SIGTERM; `ready` is called when it can be opened."""
    try:
        with _gradio_settings(bench.inbox):
            app, inner = make_app(bench, names_of(bound))

            def end() -> None:
                inner.stop_event.set()  # of the connections that tell whether a browser is there
                bench.end()

            config = uvicorn.Config(
                app,
                ws="none",
                lifespan="on",
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=SECONDS_TO_END,
            )
            server = _Server(config, ready, end)
            with ending(server):
                server.run([bound])
    finally:
        bench.end()


@contextmanager
def _gradio_settings(inbox: Path) -> Iterator[None]:
    """Tells Gradio what it only takes from the environment, and puts that back."""
    wanted = {
        "GRADIO_TEMP_DIR": str(inbox),
        "GRADIO_HEARTBEAT_INTERVAL": SECONDS_BETWEEN_BEATS,
        "GRADIO_ANALYTICS_ENABLED": "False",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
