"""The page that documents the service: one HTML file that fetches nothing."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from ipl.apps.limits import Limits
from ipl.display.page import render

# Whatever gets into the page, a browser runs and loads nothing.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'",
}


def page(openapi: dict[str, Any], about: dict[str, Any], limits: Limits) -> str:
    """Returns the page of an OpenAPI document, with the prompt and the limits."""
    source = (files("ipl.apps.serve") / "docs_page.html.jinja").read_text(encoding="utf-8")
    return render(source, api=openapi, about=about, limits=limits)
