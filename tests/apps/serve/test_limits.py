"""Every limit lets through what is allowed, and says what is beyond it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl.apps.limits import Limits, Refusal
from ipl.apps.serve.requests import bounded
from ipl.support.errors import ConfigError
from ipl_scenes import draw
from tests.helpers.serving import as_json, sentence, to_bytes, upload

SECONDS = 10
Start = Callable[..., TestClient]


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("max_bytes", 0, "1 or more"),
        ("max_pixels", 10**9, "1 to 89478485"),
        ("max_classes", 1, "2 or more"),
        ("max_text", 0, "1 or more"),
        ("concurrency", 0, "1 or more"),
        ("upload_seconds", float("inf"), "0.1 or more"),
        ("answer_seconds", float("nan"), "0.1 or more"),
        ("batch", 65, "1 to 64"),
        ("wait_ms", -1, "0 or more"),
        ("class_lists", 0, "1 or more"),
    ],
)
def test_limits_are_checked_where_they_are_built(field: str, value: float, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; it must be {allowed}."):
        Limits(**{field: value})  # type: ignore[arg-type]


def test_bytes_of_a_form_and_of_json(start: Start, beach: bytes) -> None:
    client = start(max_bytes=len(beach) * 2)
    assert upload(client, beach).status_code == 200
    assert client.post("/predict", json=as_json(beach)).status_code == 200
    large = beach + b"\0" * len(beach)
    for response in (upload(client, large), client.post("/predict", json=as_json(large))):
        assert f"larger than {len(beach) * 2:,} bytes" in sentence(response, 413)


def test_bytes_without_a_length(start: Start, beach: bytes) -> None:
    client = start(max_bytes=len(beach))
    head = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    response = client.post("/predict", content=iter([beach, b" "]), headers=head)
    assert "larger than" in sentence(response, 413)


@pytest.mark.parametrize("length", ["-1", "x", "1" * 5000])
def test_a_length_that_is_no_length(length: str, start: Start) -> None:
    head = {"Content-Type": "application/json", "Content-Length": length}
    response = start().post("/predict", content=b"{", headers=head)
    sentence(response, 413 if length[0] == "1" else 400)


def test_reading_stops_at_the_limit_and_not_at_the_end() -> None:
    sent = 0

    async def endless() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def read() -> None:
        receive = bounded(endless, Limits(max_bytes=10_500))
        while True:
            await receive()

    with pytest.raises(Refusal, match="larger than 10,500 bytes") as caught:
        asyncio.run(read())
    assert (caught.value.status, sent) == (413, 11)


def test_reading_stops_after_its_time() -> None:
    async def drop_by_drop() -> dict[str, Any]:
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        receive = bounded(drop_by_drop, Limits(upload_seconds=0.2))
        while True:
            await receive()

    began = time.monotonic()
    with pytest.raises(Refusal, match="not come whole after 0.2 s") as caught:
        asyncio.run(read())
    assert caught.value.status == 408
    assert time.monotonic() - began < 2


def test_pixels(start: Start) -> None:
    image = draw("beach", 0)
    width, height = image.size
    assert upload(start(max_pixels=width * height), to_bytes(image)).status_code == 200
    said = sentence(upload(start(max_pixels=width * height - 1), to_bytes(image)), 413)
    assert f"{width} x {height} pixels" in said


def test_class_count_and_text_length(start: Start, beach: bytes) -> None:
    client = start(max_classes=3, max_text=5)

    def ask(*names: str) -> list[Any]:
        listed = client.post("/predict", json=as_json(beach, classes=names))
        return [listed, upload(client, beach, classes=list(names))]

    for response in ask("cat", "dog", "horse"):
        assert response.status_code == 200, response.text
    for response in ask("cat", "dog", "horse", "cow"):
        assert "classes holds 4 names; allowed are 2 to 3" in sentence(response, 422)
    for response in ask("cat", "donkey"):
        assert "Class 2 has a name of 6 characters; at most 5" in sentence(response, 422)
    many = upload(client, beach, classes=["x"] * 1000)
    assert "Maximum number of fields is 5" in sentence(many, 400)


def blocked(client: TestClient) -> tuple[Event, Event]:
    """Returns two events: the model has begun to work, and it may go on."""
    began, go_on = Event(), Event()
    batcher = client.app.state.service.batcher  # type: ignore[attr-defined]
    work = batcher.work

    def wait(questions: Any) -> Any:
        began.set()
        assert go_on.wait(SECONDS)
        return work(questions)

    batcher.work = wait
    return began, go_on


def test_beyond_the_concurrency_limit_is_503(start: Start, beach: bytes) -> None:
    client = start(concurrency=2, batch=1)
    _, go_on = blocked(client)
    with ThreadPoolExecutor(2) as threads:
        taken = [threads.submit(upload, client, beach) for _ in range(2)]
        until = time.monotonic() + SECONDS
        while client.get("/healthz").json()["inside"] < 2:
            assert time.monotonic() < until
        response = upload(client, beach)
        assert "2 requests are being answered" in sentence(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.get("/prompt").status_code == 200  # what costs nothing is always answered
        go_on.set()
        assert [future.result().status_code for future in taken] == [200, 200]
    assert upload(client, beach).status_code == 200  # the places are free again
    assert client.get("/healthz").json()["inside"] == 0


def test_places_are_free_again_after_errors(start: Start) -> None:
    client = start(concurrency=1)
    for _ in range(3):
        sentence(upload(client, b"not an image"), 415)
    assert client.get("/healthz").json()["inside"] == 0


def test_an_answer_that_takes_too_long_is_503(start: Start, beach: bytes) -> None:
    client = start(answer_seconds=0.2)
    began, go_on = blocked(client)
    response = upload(client, beach)
    go_on.set()
    assert began.is_set()
    assert "no answer after 0.2 s" in sentence(response, 503)
    assert response.headers["retry-after"] == "1"
