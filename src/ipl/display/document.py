"""A report as plain parts: the HTML page and the Markdown file are written from the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHORT = 28  # letters


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `kind` note or warning sets it apart."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class Code:
    """Lines to type, as they stand."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of texts under a caption; columns whose cells are numbers are set to the right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.caption}: a row of {len(row)} in {len(self.columns)}.")

    @property
    def short(self) -> bool:
        """Returns whether the cells of the first column are short enough to stay on one line."""
        return all(len(row[0]) <= SHORT for row in self.rows)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Returns for each column whether all its cells are numbers or empty."""
        return tuple(
            any(row[i] for row in self.rows) and all(_is_number(row[i]) for row in self.rows)
            for i in range(len(self.columns))
        )


@dataclass(frozen=True)
class Figure:
    """A drawing, which says what it shows in words as well, and its numbers."""

    title: str
    svg: str
    table: Table | None  # None: it is in the table of its group


@dataclass(frozen=True)
class Figures:
    """Drawings that stand side by side where there is room, and numbers they may share."""

    figures: tuple[Figure, ...]
    table: Table | None = None


@dataclass(frozen=True)
class Thumb:
    """A small image as a data URI, with its description."""

    uri: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Small images under a heading."""

    title: str
    thumbs: tuple[Thumb, ...]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Piece:
    """One piece of a prompt read aloud: soft vectors, a word, the class name or plain text."""

    kind: str  # soft, word, class, text
    text: str


@dataclass(frozen=True)
class Prompts:
    """Prompts read aloud, each under its name."""

    prompts: tuple[tuple[str, tuple[Piece, ...]], ...]


Block = Paragraph | Code | Table | Figure | Figures | Gallery | Heading | Prompts


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading of its own."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    prompt: tuple[Piece, ...]
    lead: tuple[str, ...]  # sentences that sum it up
    warnings: tuple[str, ...]  # what a reader must know before believing it
    sections: tuple[Section, ...]
    foot: str


def make_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Returns a table of any sequences."""
    return Table(caption, tuple(columns), tuple(map(tuple, rows)))


def _is_number(cell: str) -> bool:
    bare = cell.replace(",", "").replace("\N{MINUS SIGN}", "-").removesuffix("%").strip()
    if not bare:
        return True
    try:
        float(bare)
    except ValueError:
        return False
    return True
