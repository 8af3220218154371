"""What a notebook displays of an object: sentences and tables as HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ipl.display.table import Table


def notebook_html(title: str, parts: Iterable[str | Table]) -> str:
    """Returns HTML for `_repr_html_`: a title, then sentences and tables; every text is escaped."""
    blocks = [
        part.to_html() if isinstance(part, Table) else f"<p>{escape(part)}</p>" for part in parts
    ]
    return "\n".join(["<div>", f"<p><strong>{escape(title)}</strong></p>", *blocks, "</div>"])
