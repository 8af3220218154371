"""Pages: a document as one HTML file that needs no network, and what all pages share."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ipl.display.document import Document


def as_html(document: Document) -> str:
    """Returns a document as an HTML page; every text is escaped, SVG drawings are not.

    Parameters
    ----------
    document : Document
        The report to write.

    Returns
    -------
    str
        The page, with its style sheet and images in it.
    """
    template = files("ipl.display") / "document.html.jinja"
    return render(template.read_text(encoding="utf-8"), document=document, style=style_sheet())


def style_sheet() -> str:
    """Returns the style of every page: light, dark and on paper."""
    return (files("ipl.display") / "style.css").read_text(encoding="utf-8")


def render(template: str, **values: Any) -> str:
    """Returns a Jinja template filled in, with every text escaped; a missing value is an error."""
    environment = Environment(
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(**values)
