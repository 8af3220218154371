"""What all pages share: one style sheet, and templates in which every text is escaped."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined


def style_sheet() -> str:
    """Returns the style of every page: light, dark and on paper."""
    return (files("ipl.display") / "style.css").read_text(encoding="utf-8")


def render(source: str, **values: Any) -> str:
    """Returns a template filled in; a value that is missing is an error."""
    environment = Environment(
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(source).render(**values)
