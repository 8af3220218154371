"""How a service says no: JSON with one sentence."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from ipl.apps.limits import Refusal
from ipl.support.errors import IplError


def say_errors_in_json(app: FastAPI) -> None:
    """Makes every error one sentence; a bug's traceback goes to the log and nowhere else."""

    @app.exception_handler(Refusal)
    async def refusal(_: Request, error: Refusal) -> Response:
        return problem(error.status, error.sentence, error.headers)

    @app.exception_handler(IplError)
    async def bad_input(_: Request, error: IplError) -> Response:
        return problem(422, str(error))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, error.detail.rstrip(".") + ".", error.headers)

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        return problem(500, "The service made a mistake; its log says which.")


def problem(status: int, sentence: str, headers: Any = None) -> JSONResponse:
    """Returns an error as the client gets it."""
    return JSONResponse({"error": sentence}, status, headers)
