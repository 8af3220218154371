"""The request and the responses of the service, as its OpenAPI document describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ipl.apps.limits import Limits
from ipl.apps.serve.requests import DEFAULT_TOP, MAX_TOP


class RankedClass(BaseModel):
    """A class and how probable it is."""

    name: str
    probability: float


class PredictionResponse(BaseModel):
    """The most probable classes, best first."""

    classes: list[RankedClass]


class PromptInfo(BaseModel):
    """The prompt, and the classes and backbone it was trained for."""

    words: list[str]
    prompt: str
    classes: list[str]
    learner: str
    backbone: str
    weights_sha256: str
    ipl_version: str


class Health(BaseModel):
    """The state of the service."""

    status: str
    inside: int  # requests that are being read or answered
    images: int  # classified so far
    batches: int  # in which they were classified


class Problem(BaseModel):
    """Why a request was not answered, in one sentence."""

    error: str


DESCRIPTIONS = {
    400: "The request cannot be read: broken JSON, multipart or base64.",
    408: "The request was not complete in time.",
    413: "Too many bytes or pixels, or too many scans of a JPEG.",
    415: "Neither multipart nor JSON, or the image is not an image.",
    422: "A field is missing, unknown or out of its range, or the image is damaged.",
    503: "Too many requests at once, or the answer took too long; see Retry-After.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in DESCRIPTIONS.items()
}


def request_body(limits: Limits) -> dict[str, Any]:
    """Returns the OpenAPI description of the body of POST /predict."""
    name = {"type": "string", "minLength": 1, "maxLength": limits.max_text}
    names = {"type": "array", "items": name, "minItems": 2, "maxItems": limits.max_classes}
    form_help = "Other classes than the prompt's own: the field once per name, or once as a,b,c."
    json_names = {**names, "description": "Other classes than the prompt's own."}
    form_names = {**names, "description": form_help}
    json_image = {
        "type": "string",
        "contentEncoding": "base64",
        "description": "The image's bytes in base64.",
    }
    form_image = {"type": "string", "format": "binary", "description": "The image."}
    top = {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_TOP,
        "default": DEFAULT_TOP,
        "description": "Classes to return.",
    }

    def schema(image: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
        properties = {"image": image, "classes": classes, "top": top}
        return {"schema": {"type": "object", "required": ["image"], "properties": properties}}

    content = {
        "multipart/form-data": schema(form_image, form_names),
        "application/json": schema(json_image, json_names),
    }
    return {"requestBody": {"required": True, "content": content}}
