"""Running the application: a socket, uvicorn, and a clean end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from math import ceil
from typing import Any, ClassVar
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ipl.apps.limits import Limits
from ipl.support.errors import ConfigError

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
WAITING = 2048  # connections that the system holds until they are taken


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 with one more clock.

    When no request is being answered, the head of one must come in time; that also ends a client
    that goes on sending after it was refused.
    """

    seconds: ClassVar[float] = 10.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the clock."""
        super().connection_made(transport)
        self._wind()

    def on_response_complete(self) -> None:
        """Starts the clock again."""
        super().on_response_complete()
        self._wind()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop()
        super().connection_lost(exc)

    def _wind(self) -> None:
        self._stop()
        self._clock = self.loop.call_later(self.seconds, self._ring)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def _ring(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Returns a bound socket, on a free port if it is 0; connections are refused until it runs."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"Port {port} of {host!r} cannot be listened on: {why}.") from None
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Returns whether only this machine can reach a socket."""
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def names_of(bound: socket.socket) -> frozenset[str] | None:
    """Returns the names that a socket for this machine alone goes by; None if others reach it.

    Another site could point a name of its own at a loopback address, and read what we answer.
    """
    return LOCAL_NAMES | {str(bound.getsockname()[0])} if is_loopback(bound) else None


def is_called(host: str, names: frozenset[str] | None) -> bool:
    """Returns whether the header Host of a request is one of our names; None takes any."""
    if names is None:
        return True
    try:
        return urlsplit(f"//{host}").hostname in names
    except ValueError:  # half an IPv6 address
        return False


def address_of(bound: socket.socket) -> str:
    """Returns the address of a socket as a browser takes it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(app: FastAPI, bound: socket.socket, limits: Limits) -> None:
    """Answers requests until Ctrl-C or SIGTERM, and then those that have come in."""
    longest = ceil(limits.upload_seconds + limits.answer_seconds)
    how: dict[str, Any] = {
        "http": type("Connection", (Connection,), {"seconds": limits.upload_seconds}),
        "ws": "none",
        "lifespan": "on",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_graceful_shutdown": longest,
        "backlog": WAITING,
    }
    server = uvicorn.Server(uvicorn.Config(app, **how))
    with ending(server):
        server.run([bound])


@contextmanager
def ending(server: uvicorn.Server) -> Iterator[None]:
    """Lets a signal end the server, and no more: uvicorn raises it again once all is done."""

    def end(number: int, frame: Any) -> None:
        del number, frame
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
