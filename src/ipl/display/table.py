"""Sheets for a terminal, in Markdown and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Group
from rich.table import Table
from rich.text import Text

DIFFERS = "≠"
ESCAPES = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SYMBOLS = {"±": r"$\pm$", DIFFERS: r"$\neq$", "<": r"$<$", ">": r"$>$"}


@dataclass
class Sheet:
    """Rows of text; the first `left` columns are names, the others numbers."""

    title: str
    columns: list[str]
    left: int
    caption: str = ""
    sections: list[list[list[str]]] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def mark(self, texts: Iterable[str]) -> str:
        """Returns " [1,3]" for footnotes with these texts, each listed once; "" for none."""
        places = []
        for text in texts:
            if text not in self.footnotes:
                self.footnotes.append(text)
            places.append(self.footnotes.index(text) + 1)
        return f" [{_ranges(sorted(places))}]" if places else ""


def as_text(sheets: Sequence[Sheet]) -> Group:
    """Returns the sheets for a terminal."""
    parts: list[Text | Table] = []
    for place, sheet in enumerate(sheets):
        parts += [Text("")] if place else []
        parts += [Text(sheet.title, style="bold"), Text(sheet.caption)]
        table = Table(box=None, pad_edge=False)
        for column, name in enumerate(sheet.columns):
            if column < sheet.left:  # on a narrow terminal numbers fold before names vanish
                table.add_column(name, min_width=len(name), overflow="fold")
            else:
                table.add_column(name, justify="right")
        for section in sheet.sections:
            for row in section:
                table.add_row(*map(Text, row))
        parts.append(table)
        parts += [Text(line) for line in _below(sheet)]
    return Group(*parts)


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Returns the sheets as Markdown tables."""
    blocks = []
    for sheet in sheets:
        rows = [sheet.columns, ["---"] * sheet.left]
        rows[1] = rows[1] + ["---:"] * (len(sheet.columns) - sheet.left)
        rows += [row for section in sheet.sections for row in section]
        lines = ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
        below = "\n".join(f"- {_markdown(line)}" for line in _below(sheet))
        table = "\n".join(lines)
        blocks.append(f"### {_markdown(sheet.title)}\n\n{_markdown(sheet.caption)}.\n\n{table}\n")
        blocks += [below + "\n"] if below else []
    return "\n".join(blocks)


def as_latex(sheets: Sequence[Sheet]) -> str:
    r"""Returns the sheets as LaTeX tables; they need \usepackage{booktabs}."""
    blocks = [r"% needs \usepackage{booktabs}"]
    for sheet in sheets:
        kinds = "l" * sheet.left + "r" * (len(sheet.columns) - sheet.left)
        lines = [r"\begin{table}", r"\centering", r"\small"]
        lines.append(rf"\caption{{{_latex(sheet.title)}. {_latex(sheet.caption)}.}}")
        lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", _latex_row(sheet.columns)]
        for section in sheet.sections:
            lines += [r"\midrule", *map(_latex_row, section)]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if below := _below(sheet):
            lines += [r"\par\smallskip\raggedright\footnotesize"]
            lines += [rf"{_latex(line)}\par" for line in below]
        lines.append(r"\end{table}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _below(sheet: Sheet) -> list[str]:
    footnotes = [f"[{place}] {text}" for place, text in enumerate(sheet.footnotes, 1)]
    return [*footnotes, *sheet.notes]


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", " ".join(text.split()))


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    escaped = "".join(
        ESCAPES.get(c) or SYMBOLS.get(c) or (f"\\{c}" if c in "&%$#_{}" else c)
        for c in " ".join(text.split())
    )
    return re.sub(r" \[([\d,-]+)\]", r"\\textsuperscript{\1}", escaped)


def _ranges(numbers: Sequence[int]) -> str:
    """Returns 1,2,3,5 as "1-3,5"."""
    parts: list[list[int]] = []
    for value in numbers:
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
