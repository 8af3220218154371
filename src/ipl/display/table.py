"""One table of text cells, with writers for a terminal, Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from io import StringIO

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

DIFFERS = "≠"
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")  # a formula starts with one of them

LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "λ": r"$\lambda$",
    "\N{MINUS SIGN}": r"$-$",
    DIFFERS: r"$\neq$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}

# What Markdown or the HTML inside it would take for markup.
_MARKDOWN_SIGNS = re.compile(r"([\\`*_\[\]<>|#~])")
_MARK = re.compile(r" \[([\d,-]+)\]$")  # as footnote_mark() writes it


class Styled(str):
    """A cell with a rich style, which a terminal shows and all other formats leave out."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        """Returns the text with its style, for example "bold" or "green"."""
        styled = super().__new__(cls, text)
        styled.style = style
        return styled


class Table:
    """Rows of text cells below column names, in sections, with footnotes and notes.

    `numbers` names the columns that are set to the right, by default those in which every cell that
    is not empty is a number; `unwrapped` those that a terminal does not break into several lines.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]] = (),
        *,
        title: str = "",
        caption: str = "",
        numbers: Collection[str] | None = None,
        unwrapped: Collection[str] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.title = title
        self.caption = caption
        self.sections: list[tuple[tuple[str, ...], ...]] = []
        self.footnotes: list[str] = []
        self.notes: list[str] = []
        self._numbers = None if numbers is None else frozenset(numbers)
        self._unwrapped = frozenset(unwrapped)
        self.add_section(rows)

    @property
    def heading(self) -> str:
        """Returns title and caption as one text."""
        return ". ".join(text for text in (self.title, self.caption) if text)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Returns the rows of all sections."""
        return tuple(row for section in self.sections for row in section)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Returns for each column whether it holds numbers."""
        if self._numbers is not None:
            return tuple(name in self._numbers for name in self.columns)
        columns = [[row[index] for row in self.rows] for index in range(len(self.columns))]
        return tuple(any(cells) and all(map(_is_number, cells)) for cells in columns)

    def add_section(self, rows: Iterable[Sequence[str]]) -> None:
        """Adds rows that belong together; LaTeX and HTML set sections apart."""
        section = tuple(map(tuple, rows))
        for row in section:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"{self.heading}: a row has {len(row)} cells in a table of "
                    f"{len(self.columns)} columns."
                )
        if section:
            self.sections.append(section)

    def footnote_mark(self, texts: Iterable[str]) -> str:
        """Returns the mark to end a cell with, such as " [1,3]", and adds new footnotes.

        A text that is a footnote already keeps its number. Without texts the mark is empty.
        """
        numbers = []
        for text in texts:
            if text not in self.footnotes:
                self.footnotes.append(text)
            numbers.append(self.footnotes.index(text) + 1)
        return f" [{_ranges(sorted(numbers))}]" if numbers else ""

    def to_terminal(self) -> Group:
        """Returns the table for a rich console."""
        parts: list[Text | RichTable] = []
        if self.title:
            parts.append(Text(self.title, style="bold"))
        if self.caption:
            parts.append(Text(self.caption))
        table = RichTable(box=None, pad_edge=False)
        for name, numeric in zip(self.columns, self.numeric, strict=True):
            unwrapped = name in self._unwrapped
            table.add_column(
                Text(name),
                justify="right" if numeric else "left",
                no_wrap=unwrapped,
                overflow="ellipsis" if unwrapped else "fold",
                # On a narrow terminal numbers are broken before names vanish.
                min_width=None if numeric else len(name),
            )
        for row in self.rows:
            table.add_row(*(Text(cell, style=getattr(cell, "style", "")) for cell in row))
        return Group(*parts, table, *map(Text, self._below()))

    def to_markdown(self) -> str:
        """Returns the table as Markdown; without a title its caption stands in bold above it."""
        parts = []
        if self.title:
            parts.append(f"### {escape_markdown(self.title)}")
        if self.caption:
            caption = escape_markdown(self.caption)
            parts.append(f"{caption}." if self.title else f"**{caption}**")
        rule = ["---:" if numeric else "---" for numeric in self.numeric]
        cells = [
            [self._escaped(cell, escape_markdown, " [{}]") for cell in row]
            for row in (self.columns, *self.rows)
        ]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:])))
        below = [f"[{number}] {escape_markdown(text)}" for number, text in self._numbered()]
        below += [escape_markdown(note) for note in self.notes]
        if below:
            parts.append("\n".join(f"- {line}" for line in below))
        return "\n\n".join(parts) + "\n"

    def to_latex(self) -> str:
        r"""Returns the table as a LaTeX float, which needs \usepackage{booktabs}."""

        def line(row: Sequence[str]) -> str:
            mark = r"\textsuperscript{{{}}}"
            cells = [self._escaped(cell, escape_latex, mark) for cell in row]
            return " & ".join(cells) + r" \\"

        kinds = "".join("r" if numeric else "l" for numeric in self.numeric)
        lines = [r"\begin{table}", r"\centering", r"\small"]
        if self.heading:
            lines.append(rf"\caption{{{escape_latex(self.heading)}.}}")
        lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", line(self.columns)]
        for section in self.sections:
            lines += [r"\midrule", *map(line, section)]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if below := self._below():
            lines.append(r"\par\smallskip\raggedright\footnotesize")
            lines += [rf"{escape_latex(line)}\par" for line in below]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def to_csv(self) -> str:
        """Returns a line of column names and a line for each row; notes are left out.

        Texts that a spreadsheet would take for a formula get a `'` in front.
        """
        text = StringIO()
        numeric = self.numeric
        rows = [
            [
                cell if number or _is_number(cell) else without_formula(cell)
                for cell, number in zip(row, numeric, strict=True)
            ]
            for row in self.rows
        ]
        csv.writer(text, lineterminator="\n").writerows([self.columns, *rows])
        return text.getvalue()

    def to_html(self, hide_caption: bool = False) -> str:
        """Returns the table as HTML in a region that scrolls by itself where it is too wide.

        A hidden caption is read aloud, but not displayed.
        """
        kinds = [' class="n"' if number else "" for number in self.numeric]
        head = "".join(
            f'<th scope="col"{kind}>{escape(name)}</th>'
            for name, kind in zip(self.columns, kinds, strict=True)
        )

        def content(cell: str) -> str:
            return self._escaped(cell, escape, "<sup>[{}]</sup>")

        bodies = []
        for section in self.sections or [()]:
            rows = ""
            for row in section:
                cells = "".join(
                    f"<td{kind}>{content(cell)}</td>"
                    for cell, kind in zip(row[1:], kinds[1:], strict=True)
                )
                name = f'<th scope="row"{kinds[0]}>{content(row[0])}</th>'
                rows += f"\n<tr>{name}{cells}</tr>"
            bodies.append(f"<tbody>{rows}\n</tbody>")
        heading = escape(self.heading)
        hidden = ' class="hidden"' if hide_caption else ""
        caption = f"<caption{hidden}><span>{heading}</span></caption>\n" if heading else ""
        below = "".join(f"\n<p>{escape(line)}</p>" for line in self._below())
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{heading or "Table"}">\n'
            f"<table>\n{caption}"
            f"<thead><tr>{head}</tr></thead>\n{''.join(bodies)}\n</table>\n</div>{below}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def _escaped(self, cell: str, escape_text: Callable[[str], str], mark: str) -> str:
        """Returns a cell escaped, with the footnote mark at its end as the format writes it."""
        match = _MARK.search(cell) if self.footnotes else None
        if match is None:
            return escape_text(cell)
        return escape_text(cell[: match.start()]) + mark.format(match[1])

    def _numbered(self) -> Iterable[tuple[int, str]]:
        return enumerate(self.footnotes, start=1)

    def _below(self) -> list[str]:
        """Returns the lines below the table: footnotes with their numbers, then notes."""
        return [*(f"[{number}] {text}" for number, text in self._numbered()), *self.notes]


def tables_to_terminal(tables: Iterable[Table]) -> Group:
    """Returns several tables for a rich console, with an empty line between them."""
    parts: list[Group | Text] = []
    for table in tables:
        parts += [Text(""), table.to_terminal()] if parts else [table.to_terminal()]
    return Group(*parts)


def tables_to_markdown(tables: Iterable[Table]) -> str:
    """Returns several tables as one Markdown text."""
    return "\n".join(table.to_markdown() for table in tables)


def tables_to_latex(tables: Iterable[Table]) -> str:
    """Returns several tables as one LaTeX text that names the package it needs."""
    return "\n".join([r"% needs \usepackage{booktabs}" + "\n", *(t.to_latex() for t in tables)])


def without_formula(text: str) -> str:
    """Returns a text with a `'` in front if a spreadsheet would compute it, such as "=1+1"."""
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


def escape_markdown(text: str) -> str:
    """Returns a text in one line that Markdown shows as it is."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    """Returns a text in one line that LaTeX shows as it is."""
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))


def _is_number(cell: str) -> bool:
    """Returns whether a cell is a number, perhaps in per cent, or empty."""
    digits = cell.replace(",", "").replace("\N{MINUS SIGN}", "-").removesuffix("%").strip()
    if not digits:
        return True
    try:
        float(digits)
    except ValueError:
        return False
    return True


def _ranges(numbers: Sequence[int]) -> str:
    """Returns 1, 2, 3, 5 as "1-3,5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
