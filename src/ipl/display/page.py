"""HTML: a document as one page that needs no network, and what a notebook displays."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ipl.display.document import Document
from ipl.display.table import Table


def as_html(document: Document) -> str:
    template = files("ipl.display") / "document.html.jinja"
    style = (files("ipl.display") / "style.css").read_text(encoding="utf-8")
    return render(template.read_text(encoding="utf-8"), document=document, style=style)


def notebook_html(title: str, parts: Iterable[str | Table]) -> str:
    """HTML for `_repr_html_`: a title, then sentences and tables; every text is escaped."""
    blocks = [
        part.to_html() if isinstance(part, Table) else f"<p>{escape(part)}</p>" for part in parts
    ]
    return "\n".join(["<div>", f"<p><strong>{escape(title)}</strong></p>", *blocks, "</div>"])


def render(template: str, **values: Any) -> str:
    """A Jinja template filled in, with every text escaped; a missing value is an error."""
    return environment(autoescape=True).from_string(template).render(**values)


def environment(**options: Any) -> Environment:
    """An environment of Jinja in which a missing value is an error."""
    return Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
