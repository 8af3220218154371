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

from ipl.support.errors import printable

DIFFERS = "≠"
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")  # a formula starts with one of them

LATEX_PACKAGES = "% needs \\usepackage{booktabs,graphicx}\n"
LATEX_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # if too wide
ROWS_OF_PAGE = 40
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
_MARK = re.compile(r" \[([\d,]+)\]$")  # as footnote_mark() writes it


class Styled(str):
    """A cell with a rich style, which a terminal shows and all other formats leave out."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        styled = super().__new__(cls, text)
        styled.style = style
        return styled


class Table:
    """Rows of text cells below column names, in sections, with footnotes and notes.

    `numbers` names the columns that are set to the right, by default those in which every cell that
    is not empty is a number. LaTeX sets columns whose names begin with one of `groups`, such as
    "dtd base" and "dtd novel", below its name.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]] = (),
        *,
        title: str = "",
        caption: str = "",
        numbers: Collection[str] | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.title = title
        self.caption = caption
        self.sections: list[tuple[tuple[str, ...], ...]] = []
        self.footnotes: list[str] = []
        self.notes: list[str] = []
        self._numbers = None if numbers is None else frozenset(numbers)
        self._groups = tuple(groups)
        self.add_section(rows)

    @property
    def heading(self) -> str:
        return ". ".join(text for text in (self.title, self.caption) if text)

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(row for section in self.sections for row in section)

    @property
    def numeric(self) -> tuple[bool, ...]:
        if self._numbers is not None:
            return tuple(name in self._numbers for name in self.columns)
        columns = [[row[index] for row in self.rows] for index in range(len(self.columns))]
        return tuple(any(cells) and all(map(_is_number, cells)) for cells in columns)

    def add_section(self, rows: Iterable[Sequence[str]]) -> None:
        """Adds rows that belong together; LaTeX and HTML set sections apart."""
        section = tuple(map(tuple, rows))
        if section:
            self.sections.append(section)

    def footnote_mark(self, texts: Iterable[str]) -> str:
        """The mark to end a cell with, such as " [1,3]", and adds new footnotes.

        A text that is a footnote already keeps its number. Without texts the mark is empty.
        """
        numbers = []
        for text in texts:
            if text not in self.footnotes:
                self.footnotes.append(text)
            numbers.append(self.footnotes.index(text) + 1)
        return f" [{','.join(map(str, sorted(numbers)))}]" if numbers else ""

    def to_terminal(self) -> Group:
        parts: list[Text | RichTable] = []
        if self.title:
            parts.append(Text(self.title, style="bold"))
        if self.caption:
            parts.append(Text(self.caption))
        table = RichTable(box=None, pad_edge=False)
        for name, numeric in zip(self.columns, self.numeric, strict=True):
            table.add_column(
                Text(name),
                justify="right" if numeric else "left",
                overflow="fold",
                # On a narrow terminal numbers are broken before names vanish.
                min_width=None if numeric else len(name),
            )
        for row in self.rows:
            table.add_row(*(Text(cell, style=getattr(cell, "style", "")) for cell in row))
        return Group(*parts, table, *map(Text, self._below()))

    def to_markdown(self) -> str:
        """The table as Markdown; without a title its caption stands in bold above it."""
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
        if below := self._below():
            parts.append("\n".join(f"- {escape_markdown(line)}" for line in below))
        return "\n\n".join(parts) + "\n"

    def to_latex(self) -> str:
        r"""The table as LaTeX floats of a page each; needs \usepackage{booktabs,graphicx}."""
        kinds = "".join("r" if numeric else "l" for numeric in self.numeric)
        lines: list[str] = []
        for page in self._pages():
            lines += [r"\begin{table}", r"\centering", r"\small"]
            if self.heading:
                continued = " (continued)" if lines[3:] else ""
                lines.append(rf"\caption{{{escape_latex(self.heading)}{continued}.}}")
            lines += [LATEX_FIT, rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
            lines += self._latex_head()
            for section in page:
                lines += [r"\midrule", *map(self._latex_row, section)]
            lines += [r"\bottomrule", r"\end{tabular}}", r"\end{table}"]
        if below := self._below():
            lines[-1:] = [r"\par\smallskip\raggedright\footnotesize"]
            lines += [rf"{escape_latex(line)}\par" for line in below]
            lines.append(r"\end{table}")
        return "\n".join(lines) + "\n"

    def _pages(self) -> list[list[tuple[tuple[str, ...], ...]]]:
        """The sections by page of a paper; a table without rows has one."""
        pages: list[list[tuple[tuple[str, ...], ...]]] = [[]]
        for section in self.sections:
            if pages[-1] and sum(map(len, [*pages[-1], section])) > ROWS_OF_PAGE:
                pages.append([])
            pages[-1].append(section)
        return pages

    def _latex_head(self) -> list[str]:
        """The names of the columns, and above them those of their groups."""
        names, heads, rules = list(self.columns), list[str](), ""
        for group in self._groups:
            own = [n for n, name in enumerate(self.columns) if name.startswith(f"{group} ")]
            heads.append(rf"\multicolumn{{{len(own)}}}{{c}}{{{escape_latex(group)}}}")
            rules += rf"\cmidrule(lr){{{own[0] + 1}-{own[-1] + 1}}}"
            for index in own:
                names[index] = names[index].removeprefix(f"{group} ")
        above = [rf"& {' & '.join(heads)} \\", rules] if heads else []
        return [*above, self._latex_row(names)]

    def _latex_row(self, row: Sequence[str]) -> str:
        mark = r"\textsuperscript{{{}}}"
        return " & ".join(self._escaped(cell, escape_latex, mark) for cell in row) + r" \\"

    def to_csv(self) -> str:
        """A line of column names and a line for each row; notes are left out.

        Texts that a spreadsheet would take for a formula get a `'` in front.
        """
        text, numeric = StringIO(), self.numeric
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            pairs = zip(row, numeric, strict=True)
            writer.writerow([c if n or _is_number(c) else without_formula(c) for c, n in pairs])
        return text.getvalue()

    def to_html(self) -> str:
        """The table as HTML in a region that scrolls by itself where it is too wide."""
        kinds = [' class="n"' if number else "" for number in self.numeric]
        pairs = zip(self.columns, kinds, strict=True)
        head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in pairs)

        def line(row: Sequence[str]) -> str:
            name, *cells = (self._escaped(cell, escape, "<sup>[{}]</sup>") for cell in row)
            rest = zip(cells, kinds[1:], strict=True)
            tags = "".join(f"<td{kind}>{cell}</td>" for cell, kind in rest)
            return f'<tr><th scope="row"{kinds[0]}>{name}</th>{tags}</tr>\n'

        bodies = [f"<tbody>\n{''.join(map(line, section))}</tbody>" for section in self.sections]
        heading = escape(self.heading)
        caption = f"<caption><span>{heading}</span></caption>\n" if heading else ""
        below = "".join(f"\n<p>{escape(text)}</p>" for text in self._below())
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{heading or "Table"}">\n'
            f"<table>\n{caption}"
            f"<thead><tr>{head}</tr></thead>\n{''.join(bodies)}\n</table>\n</div>{below}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def _escaped(self, cell: str, escape_text: Callable[[str], str], mark: str) -> str:
        """A cell escaped, with the footnote mark at its end as the format writes it."""
        match = _MARK.search(cell) if self.footnotes else None
        if match is None:
            return escape_text(cell)
        return escape_text(cell[: match.start()]) + mark.format(match[1])

    def _below(self) -> list[str]:
        """The lines below the table: footnotes with their numbers, then notes."""
        numbered = (f"[{number}] {text}" for number, text in enumerate(self.footnotes, start=1))
        return [*numbered, *self.notes]


def tables_to_terminal(tables: Iterable[Table]) -> Group:
    parts: list[Group | Text] = []
    for table in tables:
        parts += [Text(""), table.to_terminal()] if parts else [table.to_terminal()]
    return Group(*parts)


def tables_to_markdown(tables: Iterable[Table]) -> str:
    return "\n".join(table.to_markdown() for table in tables)


def tables_to_latex(tables: Iterable[Table]) -> str:
    """Several tables as one LaTeX text that names the package it needs."""
    return "\n".join([LATEX_PACKAGES, *(t.to_latex() for t in tables)])


def without_formula(text: str) -> str:
    """A text with a `'` in front if a spreadsheet would compute it, such as "=1+1"."""
    text = printable(text)  # first: what is left may begin with one of the signs
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


def escape_markdown(text: str) -> str:
    """A text in one line that Markdown shows as it is."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


def code_span(text: str) -> str:
    """A text in one line that Markdown shows as code."""
    text = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def escape_latex(text: str) -> str:
    """A text in one line that LaTeX shows as it is."""
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, perhaps in per cent, or empty."""
    digits = cell.replace(",", "").replace("\N{MINUS SIGN}", "-").removesuffix("%").strip()
    try:
        float(digits or 0)
    except ValueError:
        return False
    return True
