"""Tables of a bench: for people (text, Markdown, LaTeX) and for programs (CSV, JSON)."""

from ipl.reports.tables.data import as_csv, as_values, gains_as_csv
from ipl.reports.tables.render import as_latex, as_markdown, as_text
from ipl.reports.tables.sheet import Sheet, sheets_of

__all__ = [
    "Sheet",
    "as_csv",
    "as_latex",
    "as_markdown",
    "as_text",
    "as_values",
    "gains_as_csv",
    "sheets_of",
]
