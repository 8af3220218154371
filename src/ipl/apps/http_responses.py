"""Responses that all servers share: errors as one sentence of JSON, headers that protect a page."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import Message, Send

from ipl.apps.limits import Refusal
from ipl.support.errors import IplError

# For every response: no other page may frame it, and no browser may take it for another type.
PROTECTION = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


LONGEST_ADDRESS = 100  # characters of an unknown address that are compared with the known ones


def answer_errors_as_json(app: FastAPI) -> None:
    """Makes every error one sentence of JSON; the traceback of a bug goes to the log only."""

    @app.exception_handler(Refusal)
    async def refusal(_: Request, error: Refusal) -> Response:
        return error_response(error.status, error.sentence, error.headers)

    @app.exception_handler(IplError)
    async def bad_input(_: Request, error: IplError) -> Response:
        return error_response(422, str(error))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        sentence = error.detail.rstrip(".") + "."
        if error.status_code == 404:
            routes = [str(getattr(route, "path", "")) for route in app.routes]
            for address in get_close_matches(request.url.path[:LONGEST_ADDRESS], routes, n=1):
                sentence += f" There is {address}."
        elif allowed := (error.headers or {}).get("Allow"):
            sentence += f" Allowed is {allowed}."
        return error_response(error.status_code, sentence, error.headers)

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        return error_response(500, "Internal error; the log of the service has the details.")


def error_response(
    status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Returns an error as the client gets it."""
    return JSONResponse({"error": sentence}, status, headers)


def security_policy(**sources: str) -> dict[str, str]:
    """Returns a Content-Security-Policy header that forbids a page everything but `sources`.

    Directives are written with underscores: security_policy(script_src="'self'").
    """
    directives = {"default_src": "'none'", **sources, "frame_ancestors": "'none'"}
    policy = "; ".join(f"{name.replace('_', '-')} {value}" for name, value in directives.items())
    return {"Content-Security-Policy": policy}


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Returns a `send` that sets these headers on the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with_headers
