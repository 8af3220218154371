"""A report as Markdown: the same sentences and numbers, without drawings."""

from __future__ import annotations

import re

from ipl.display.document import (
    Block,
    Code,
    Document,
    Figure,
    Figures,
    Gallery,
    Heading,
    Paragraph,
    Piece,
    Prompts,
    Table,
)

# What Markdown or the HTML inside it would take for a sign of its own.
_SIGNS = re.compile(r"([\\`*_\[\]<>|#~])")


def as_markdown(document: Document) -> str:
    """Returns the document as a Markdown text."""
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    if document.prompt:
        parts.append(f"> {_said(document.prompt)}")
    parts += [_plain(line) for line in document.lead]
    parts += [f"> {_plain(line)}" for line in document.warnings]
    for section in document.sections:
        parts.append(f"## {_plain(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    return "\n\n".join([*parts, _plain(document.foot)]) + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, Heading):
        return [f"### {_plain(block.text)}"]
    if isinstance(block, Paragraph):
        mark = "" if block.kind == "plain" else "> "
        return [mark + _plain(block.text)]
    if isinstance(block, Code):
        return ["\n".join(f"    {line}" for line in block.text.splitlines())]
    if isinstance(block, Table):
        return [f"**{_plain(block.caption)}**", _table(block)]
    if isinstance(block, Figure):
        return _block(block.table) if block.table else []  # the title may tell of the drawing
    if isinstance(block, Figures):
        shared = _block(block.table) if block.table else []
        return [part for figure in block.figures for part in _block(figure)] + shared
    if isinstance(block, Prompts):
        return ["\n".join(f"- {_plain(name)}: {_said(said)}" for name, said in block.prompts)]
    assert isinstance(block, Gallery)
    thumbs = "\n".join(f"- {_plain(thumb.caption)}" for thumb in block.thumbs)
    return [f"**{_plain(block.title)}**", thumbs]


def _said(pieces: tuple[Piece, ...]) -> str:
    return " ".join(_piece(piece) for piece in pieces).replace(" .", ".")


def _piece(piece: Piece) -> str:
    text = _plain(piece.text)
    return f"**{text}**" if piece.kind == "word" else text


def _table(table: Table) -> str:
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    rows = [[_plain(cell) for cell in row] for row in (table.columns, *table.rows)]
    lines = [rows[0], rule, *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))
