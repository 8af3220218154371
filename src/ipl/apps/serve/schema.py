"""What goes in and comes out, as the OpenAPI document tells it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ipl.apps.limits import Limits
from ipl.apps.serve.requests import TOP


class RankedClass(BaseModel):
    """A class and how probable it is."""

    name: str
    probability: float


class PredictionResponse(BaseModel):
    """The most probable classes, best first."""

    classes: list[RankedClass]


class PromptInfo(BaseModel):
    """What the prompt says and what it was made for."""

    words: list[str]
    prompt: str
    classes: list[str]
    learner: str
    backbone: str
    weights_sha256: str
    ipl_version: str


class Health(BaseModel):
    """How the service is doing."""

    status: str
    inside: int  # requests that are being read or answered
    images: int  # looked at so far
    batches: int  # that they came in


class Problem(BaseModel):
    """Why a request was not answered, in one sentence."""

    error: str


WHY = {
    400: "The request cannot be read: broken JSON, multipart or base64.",
    408: "The request did not come whole in time.",
    413: "Too many bytes or pixels, or too many scans of a JPEG.",
    415: "Neither multipart nor JSON, or the image is not an image.",
    422: "A field is missing, unknown or out of its range, or the image is damaged.",
    503: "Too many requests at once, or the answer took too long; see Retry-After.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": why} for status, why in WHY.items()
}


def request_body(limits: Limits) -> dict[str, Any]:
    """Returns the OpenAPI description of what POST /predict takes."""
    name = {"type": "string", "minLength": 1, "maxLength": limits.max_text}
    names = {"type": "array", "items": name, "minItems": 2, "maxItems": limits.max_classes}
    top = {"type": "integer", "minimum": 1, "default": TOP, "description": "Classes to return."}
    said = "Other classes than the prompt's own"
    listed = {**names, "description": f"{said}."}
    repeated = {**names, "description": f"{said}: the field once per name, or once as a,b,c."}
    bytes_ = "The image's bytes in base64."
    base64 = {"type": "string", "contentEncoding": "base64", "description": bytes_}
    binary = {"type": "string", "format": "binary", "description": "The image."}

    def fields(image: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
        properties = {"image": image, "classes": classes, "top": top}
        return {"schema": {"type": "object", "required": ["image"], "properties": properties}}

    content = {
        "multipart/form-data": fields(binary, repeated),
        "application/json": fields(base64, listed),
    }
    return {"requestBody": {"required": True, "content": content}}
