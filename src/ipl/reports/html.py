"""A report as one HTML file that needs nothing from a network."""

from __future__ import annotations

from importlib.resources import files

from ipl.pages import render, style_sheet
from ipl.reports.document import Document


def as_html(document: Document) -> str:
    """Returns the page; every text in it is escaped, drawings come as they are."""
    template = files("ipl.reports") / "templates" / "page.html.jinja"
    return render(template.read_text(encoding="utf-8"), doc=document, style=style_sheet())
