"""A report as one HTML file that needs nothing from a network."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from ipl.reports.document import Document


def as_html(document: Document) -> str:
    """Returns the page; every text in it is escaped, drawings come as they are."""
    folder = files("ipl.reports") / "templates"
    environment = Environment(
        undefined=StrictUndefined, autoescape=True, trim_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string((folder / "page.html.jinja").read_text(encoding="utf-8"))
    style = (folder / "style.css").read_text(encoding="utf-8")
    return template.render(doc=document, style=style)
