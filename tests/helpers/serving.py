"""Images as bytes, requests with them, and what an error must look like."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

from fastapi.testclient import TestClient
from PIL import Image


def to_bytes(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Returns an image as a file of this kind."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def as_json(image: bytes, **fields: Any) -> dict[str, Any]:
    """Returns a JSON request for these bytes."""
    return {"image": base64.b64encode(image).decode(), **fields}


def upload(client: TestClient, image: bytes, **fields: Any) -> Any:
    """Returns the response to an image sent as a form."""
    return client.post("/predict", files={"image": ("x", image)}, data=fields)


def sentence(response: Any, status: int) -> str:
    """Returns the one sentence of an error, having checked that it is all there is."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    message = str(body["error"])
    assert message.endswith(".")
    assert "\n" not in message
    assert "Traceback" not in message
    return message
