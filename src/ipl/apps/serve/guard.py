"""Who may ask the service: the host names it answers to, and the token that requests carry."""

from __future__ import annotations

import hmac
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ipl.apps.hosts import is_allowed_host
from ipl.apps.http_responses import PROTECTION, error_response, with_headers
from ipl.apps.limits import Refusal
from ipl.apps.serve.metrics import Metrics
from ipl.support.errors import ConfigError

OPEN = "/healthz"  # answered without a token, for the load balancer
MIN_TOKEN = 16  # characters


class ServiceGuard:
    """Refuses requests from other sites and without the token; counts and protects responses."""

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str] | None, token: str | None, metrics: Metrics
    ) -> None:
        self.app, self.hosts, self.metrics = app, hosts, metrics
        self.expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - start
                self.metrics.record(scope["path"], message["status"], seconds)
            await protected(message)

        protected = with_headers(send, PROTECTION)
        try:
            self._check(Headers(scope=scope), scope["path"])
        except Refusal as refusal:
            headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            response = error_response(refusal.status, refusal.sentence, headers)
            await response(scope, receive, counted)
            return
        try:
            await self.app(scope, receive, counted)
        except Exception:  # a bug: what is outside of this answers with status 500
            self.metrics.record(scope["path"], 500, time.perf_counter() - start)
            raise

    def _check(self, headers: Headers, path: str) -> None:
        host = headers.get("host", "")
        if not is_allowed_host(host, self.hosts):
            self.metrics.rejected["host"] += 1
            raise Refusal(
                403, f"Host is {host[:60]!r}, which is not allowed; see `ipl serve --allow-host`."
            )
        if self.expected is None or path == OPEN:
            return
        sent = headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(sent, self.expected):
            self.metrics.rejected["token"] += 1
            raise Refusal(401, "Authorization is missing or wrong; send it as Bearer TOKEN.")


def read_token(file: Path) -> str:
    """Returns the token in a file; raises ConfigError if there is none that can be sent."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        raise ConfigError(f"Cannot read the token in {file}: {reason}.") from None
    if len(token) < MIN_TOKEN or not all(33 <= ord(character) <= 126 for character in token):
        raise ConfigError(
            f"The token in {file} must be one word of {MIN_TOKEN} or more letters, digits and "
            "signs, for example from `openssl rand -hex 32`."
        )
    return token
