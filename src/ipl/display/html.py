"""A report as one HTML file that needs nothing from a network."""

from __future__ import annotations

from importlib.resources import files

from ipl.display.document import Document
from ipl.display.page import render, style_sheet


def as_html(document: Document) -> str:
    """Returns the page; every text in it is escaped, drawings come as they are."""
    template = files("ipl.display") / "document.html.jinja"
    return render(template.read_text(encoding="utf-8"), doc=document, style=style_sheet())
