"""Documents: the blocks and sections from which the HTML page and the Markdown file are written."""

from __future__ import annotations

from dataclasses import dataclass

from ipl.display.table import Table


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
class Picture:
    """A drawing as a data URI, its width in pixels, its description in words, and its numbers."""

    title: str
    uri: str
    width: int
    alt: str
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


Block = Paragraph | Code | Table | Figure | Figures | Picture | Gallery | Heading | Prompts


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading of its own; on a page, one with a summary is folded."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    summary: str = ""  # one line


@dataclass(frozen=True)
class QuestionAnswer:
    """A question that a reader comes with, and its answer in a few sentences."""

    question: str
    answer: str


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
    answers: tuple[QuestionAnswer, ...] = ()
    table: Table | None = None  # the numbers behind the answers
