"""Documents: the blocks and sections from which an HTML page is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """A drawing, which says what it shows in words as well."""

    title: str
    svg: str


@dataclass(frozen=True)
class Thumb:
    """A small image as a data URI, with its description."""

    uri: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    title: str
    thumbs: tuple[Thumb, ...]


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Piece:
    """One piece of a prompt read aloud: soft vectors, a word, the class name or plain text."""

    kind: str  # soft, word, class, text
    text: str


Block = Paragraph | Code | Table | Figure | Gallery | Heading


@dataclass(frozen=True)
class Section:
    """A part of the report, folded below its title and summary."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    summary: str  # one line
    values: Mapping[str, Any] = field(default_factory=dict)  # what it shows, for JSON


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str
    prompt: tuple[Piece, ...]
    lead: tuple[str, ...]  # sentences that sum it up
    warnings: tuple[str, ...]  # what a reader must know before believing it
    sections: tuple[Section, ...]
    foot: str
    answers: Mapping[str, str] = field(default_factory=dict)  # by the questions of a reader
    table: Table | None = None  # the numbers behind the answers
    values: Mapping[str, Any] = field(default_factory=dict)  # of the whole, for JSON
