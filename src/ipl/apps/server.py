"""Runs an application with uvicorn until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any, ClassVar

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ipl.apps.http_responses import error_response
from ipl.apps.limits import Limits

BACKLOG = 2048  # connections that the system holds until they are accepted
# What every server of ours has in common.
UVICORN_OPTIONS: dict[str, Any] = {
    "ws": "none",
    "lifespan": "on",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
}


class TimedConnection(H11Protocol):
    """uvicorn's HTTP/1.1 with one more timeout.

    While no request is being answered, the head of the next one must arrive in time; that also
    ends a client that goes on sending after it was refused.
    """

    seconds: ClassVar[float] = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the timer."""
        super().connection_made(transport)
        self._start_timer()

    def on_response_complete(self) -> None:
        """Starts the timer again."""
        super().on_response_complete()
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP with JSON, as every other error."""
        del msg
        response = error_response(400, "The request is not valid HTTP.", {"Connection": "close"})
        headers = [(name, value) for name, value in response.raw_headers]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self.seconds, self._close_if_idle)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def timed_connection(seconds: float) -> type[TimedConnection]:
    """Returns the protocol of connections on which the head of a request must arrive in time."""
    return type("Connection", (TimedConnection,), {"seconds": seconds})


def run_server(app: FastAPI, bound: socket.socket, limits: Limits) -> None:
    """Answers requests until Ctrl-C or SIGTERM; those that have arrived by then are answered."""
    config = uvicorn.Config(
        app,
        http=timed_connection(limits.upload_seconds),
        log_level="warning",
        timeout_graceful_shutdown=ceil(limits.upload_seconds + limits.answer_seconds),
        backlog=BACKLOG,
        **UVICORN_OPTIONS,
    )
    server = uvicorn.Server(config)
    with ended_by_signals(server):
        server.run([bound])


@contextmanager
def ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Lets SIGINT and SIGTERM end the server and nothing else.

    uvicorn would raise the signal once more after its end.
    """

    def end(number: int, frame: Any) -> None:
        del number, frame
        server.should_exit = True

    handlers = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
