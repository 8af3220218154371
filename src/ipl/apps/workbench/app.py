"""The web application of the workbench: only what its page needs is answered; and its server."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
import uvicorn
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from ipl.apps.hosts import is_allowed_host, is_same_origin
from ipl.apps.http_responses import PROTECTION, security_policy, with_headers
from ipl.apps.server import UVICORN_OPTIONS, ended_by_signals, timed_connection
from ipl.apps.workbench.file_access import CALL_LIMITS, FileAccess
from ipl.apps.workbench.page import build_page, script, style_sheet, theme
from ipl.apps.workbench.sessions import Workbench

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

API = "/gradio_api/"
FILE = API + "file="
PAGES = {"/", "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json"}
CALLS = {"queue/join", "queue/data", "upload", "upload_progress", "cancel", "reset", "app_id"}
CALLS |= {"startup-events", "info"}
FOLDERS = ("/assets/", "/static/", API + "heartbeat/")
HEARTBEAT_SECONDS = "2"  # after which a browser that has gone is noticed
SHUTDOWN_SECONDS = 1
# Gradio writes scripts and styles into its page and compiles templates; all else is forbidden that
# does not come from this server, so nothing on the page can be sent elsewhere.
HEADERS = {
    **security_policy(
        script_src="'self' 'unsafe-inline' 'unsafe-eval'",
        style_src="'self' 'unsafe-inline'",
        img_src="'self' data: blob:",
        font_src="'self' data:",
        connect_src="'self'",
        manifest_src="'self'",
        form_action="'none'",
        base_uri="'self'",
    ),
    **PROTECTION,
}


class RequestFilter:
    """Passes on what the page asks for; Gradio would answer, fetch and serve more than that."""

    def __init__(self, app: Any, inbox: Path, hosts: frozenset[str] | None) -> None:
        """Takes the folder whose files may be served, and the host names that are allowed."""
        self.app, self.inbox, self.hosts = app, inbox.resolve(), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request, or passes it on."""
        if scope["type"] == "http":
            send = with_headers(send, HEADERS)
            if not self._is_known(scope["path"]):
                await PlainTextResponse("Not found.", 404)(scope, receive, send)
                return
            if not self._is_same_site(scope):
                await PlainTextResponse("Not for other sites.", 403)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _is_known(self, path: str) -> bool:
        if path.startswith(FILE):
            try:
                return Path(path.removeprefix(FILE)).resolve().is_relative_to(self.inbox)
            except (OSError, ValueError):
                return False
        known = path.removeprefix(API) in CALLS if path.startswith(API) else path in PAGES
        return known or path.startswith(FOLDERS)

    def _is_same_site(self, scope: Scope) -> bool:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not is_allowed_host(host, self.hosts):
            return False
        return is_same_origin(headers.get(b"origin"), host)


class _Server(uvicorn.Server):
    """Calls a function when it is up, and another when it ends."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready, self._on_end = on_ready, on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the open connections."""
        self._on_end()
        await super().shutdown(sockets)


def create_workbench_app(workbench: Workbench, hosts: frozenset[str] | None) -> tuple[Any, Any]:
    """Returns the application, and Gradio's own inside it."""
    page = build_page(workbench)
    app = gr.mount_gradio_app(
        FastAPI(docs_url=None, redoc_url=None, openapi_url=None),
        page,
        path="/",
        footer_links=[],
        run_history=False,
        max_file_size=workbench.limits.max_bytes,
        show_error=False,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        pwa=False,
        theme=theme(),
        css=style_sheet(),
        head=script(),
    )
    page.has_launched = True  # Gradio checks paths only then, and mounting does not set it
    gradio_app = app.routes[-1].app
    return RequestFilter(FileAccess(app, workbench), workbench.inbox, hosts), gradio_app


def run_workbench(
    workbench: Workbench,
    bound: socket.socket,
    hosts: frozenset[str] | None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves the page until Ctrl-C or SIGTERM; `on_ready` is called when it can be opened."""
    try:
        with _gradio_environment(workbench.inbox):
            app, gradio_app = create_workbench_app(workbench, hosts)

            def on_end() -> None:
                gradio_app.stop_event.set()  # ends the heartbeats of open browsers
                workbench.end()

            config = uvicorn.Config(
                app,
                http=timed_connection(CALL_LIMITS.upload_seconds),
                log_level="critical",
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                **UVICORN_OPTIONS,
            )
            server = _Server(config, on_ready, on_end)
            with ended_by_signals(server):
                server.run([bound])
    finally:
        workbench.end()


@contextmanager
def _gradio_environment(inbox: Path) -> Iterator[None]:
    """Sets what Gradio reads from the environment only, and restores it afterwards."""
    variables = {
        "GRADIO_TEMP_DIR": str(inbox),
        "GRADIO_HEARTBEAT_INTERVAL": HEARTBEAT_SECONDS,
        "GRADIO_ANALYTICS_ENABLED": "False",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
