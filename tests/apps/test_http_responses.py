"""Errors are one sentence of JSON, and a policy forbids what it does not name."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ipl.apps.http_responses import answer_errors_as_json, security_policy
from ipl.apps.limits import Refusal
from ipl.support.errors import DataError
from tests.helpers.serving import sentence


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (Refusal(415, "Not that."), 415, "Not that."),
        (DataError("A name is empty."), 422, "A name is empty."),
        (RuntimeError("/home/someone/secret"), 500, "Internal error; the log of the service"),
    ],
)
def test_every_error_is_one_sentence(error: Exception, status: int, expected: str) -> None:
    app = FastAPI()

    @app.get("/")
    def fail() -> None:
        raise error

    answer_errors_as_json(app)
    client = TestClient(app, raise_server_exceptions=False)
    message = sentence(client.get("/"), status)
    assert message.startswith(expected)
    assert "secret" not in message
    assert sentence(client.get("/nowhere"), 404) == "Not Found."
    assert sentence(client.get("/openapi.jso"), 404) == "Not Found. There is /openapi.json."
    assert sentence(client.post("/"), 405) == "Method Not Allowed. Allowed is GET."


def test_a_policy_forbids_what_it_does_not_name() -> None:
    assert security_policy(script_src="'self'") == {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; frame-ancestors 'none'"
    }
