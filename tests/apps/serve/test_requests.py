"""Requests in JSON and as forms: what is allowed is answered, and the rest refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, sentence, to_bytes, upload

Start = Callable[..., TestClient]


def test_bytes_of_a_form_and_of_json(start: Start, beach: bytes) -> None:
    client = start(max_bytes=len(beach) * 2)
    assert upload(client, beach).status_code == 200
    assert client.post("/predict", json=as_json(beach)).status_code == 200
    large = beach + b"\0" * len(beach)
    for response in (upload(client, large), client.post("/predict", json=as_json(large))):
        assert f"larger than {len(beach) * 2:,} bytes" in sentence(response, 413)


@pytest.mark.parametrize("length", ["-1", "x", "1" * 5000])
def test_a_length_that_is_no_length(length: str, start: Start) -> None:
    head = {"Content-Type": "application/json", "Content-Length": length}
    response = start().post("/predict", content=b"{", headers=head)
    sentence(response, 413 if length[0] == "1" else 400)


def test_pixels(start: Start) -> None:
    image = open_scene("beach", 0)
    width, height = image.size
    assert upload(start(max_pixels=width * height), to_bytes(image)).status_code == 200
    message = sentence(upload(start(max_pixels=width * height - 1), to_bytes(image)), 413)
    assert f"{width} x {height} pixels" in message


def test_class_count_and_text_length(start: Start, beach: bytes) -> None:
    client = start(max_classes=3, max_text=5)

    def ask(*names: str) -> list[Any]:
        listed = client.post("/predict", json=as_json(beach, classes=names))
        return [listed, upload(client, beach, classes=list(names))]

    for response in ask("cat", "dog", "horse"):
        assert response.status_code == 200, response.text
    for response in ask("cat", "dog", "horse", "cow"):
        assert "classes has 4 names; allowed are 2 to 3" in sentence(response, 422)
    for response in ask("cat", "donkey"):
        assert "Class 2 has a name of 6 characters; at most 5" in sentence(response, 422)
    many = upload(client, beach, classes=["x"] * 1000)
    assert "Maximum number of fields is 5" in sentence(many, 400)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"image": "/etc/passwd"}, 400, "paths and URLs are not opened"),
        ({"image": "https://example.org/x.png"}, 400, "paths and URLs are not opened"),
        ({"image": "bm90IGEgcGljdHVyZQ=="}, 415, "not an image"),
        ({"image": ""}, 422, "image is empty"),
        ({"image": {"path": "/etc/passwd"}}, 422, "image is missing"),
        ({}, 422, "image is missing"),
        ({"top": 10**6 + 1}, 422, "whole number from 1 to 1,000,000."),
        ({"top": True}, 422, "top is true; it must be"),
        ({"top": 1.5}, 422, "top is 1.5; it must be"),
        ({"top": "3"}, 422, "top is the text '3'; it must be"),
        ({"classes": "cat"}, 422, "must be a list of names"),
        ({"classes": ["cat", 3]}, 422, "must be a list of names"),
        ({"classes": ["cat", ""]}, 422, "Class 2 has an empty name"),
        ({"classes": ["cat", "CAT"]}, 422, "the same name"),
        ({"classes": ["cat", "caf\x07"]}, 422, "control character"),
        ({"classes": ["cat", "7" * 100]}, 422, "is 100 tokens long"),
        ({"url": "http://127.0.0.1/"}, 422, "The field 'url' is unknown"),
    ],
)
def test_json_fields_that_are_not_allowed(
    fields: dict[str, Any], status: int, message: str, client: TestClient, beach: bytes
) -> None:
    whole = fields if fields == {} or "image" in fields else as_json(beach, **fields)
    assert message in sentence(client.post("/predict", json=whole), status)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json; charset=utf-8", 422),
        (b'{"top": %s}' % (b"9" * 5000), "application/json", 422),
        (b"x=1", "application/x-www-form-urlencoded", 415),
        (b"x", "", 415),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b'--b\r\nContent-Disposition: form-data; name="x', "multipart/form-data; boundary=b", 422),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read(
    body: bytes, kind: str, status: int, client: TestClient
) -> None:
    sentence(client.post("/predict", content=body, headers={"Content-Type": kind}), status)


def test_what_a_form_names_is_not_opened_and_not_parsed_without_end(
    client: TestClient, beach: bytes
) -> None:
    response = client.post("/predict", files={"top": ("", "1")}, data={"image": "/etc/passwd"})
    assert "paths and URLs are not opened" in sentence(response, 422)
    response = client.post("/predict", files={"image": ("/etc/passwd", beach)})
    assert response.status_code == 200  # a file's name says nothing
    assert "whole number" in sentence(upload(client, beach, top="9" * 5000), 422)
    two = [("image", ("a", beach)), ("image", ("b", beach))]
    assert "Maximum number of files is 1" in sentence(client.post("/predict", files=two), 400)
