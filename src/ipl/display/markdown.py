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
    Picture,
    Piece,
    Prompts,
)
from ipl.display.table import Table, escape_markdown


def as_markdown(document: Document) -> str:
    """Returns the document as a Markdown text."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.subtitle)]
    if document.prompt:
        parts.append(f"> {_prompt(document.prompt)}")
    parts += [escape_markdown(line) for line in document.lead]
    for each in document.answers:
        parts.append(f"**{escape_markdown(each.question)}** {escape_markdown(each.answer)}")
    parts += _block(document.table) if document.table else []
    parts += [f"> {escape_markdown(line)}" for line in document.warnings]
    for section in document.sections:
        parts.append(f"## {escape_markdown(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    return "\n\n".join([*parts, escape_markdown(document.foot)]) + "\n"


def code_span(text: str) -> str:
    """Returns a text in one line that Markdown shows as code."""
    text, fence = " ".join(text.split()), _fence(text, least=1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _fence(text: str, least: int) -> str:
    """Returns more backticks than the text has in a row."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def _block(block: Block) -> list[str]:
    if isinstance(block, Heading):
        return [f"### {escape_markdown(block.text)}"]
    if isinstance(block, Paragraph):
        mark = "" if block.kind == "plain" else "> "
        return [mark + escape_markdown(block.text)]
    if isinstance(block, Code):
        # Fenced: after a list, indented lines would belong to its last item and be no code.
        fence = _fence(block.text, least=3)
        return ["\n".join([fence, *block.text.splitlines(), fence])]
    if isinstance(block, Table):
        return [block.to_markdown().rstrip("\n")]
    if isinstance(block, Figure | Picture):
        return _block(block.table) if block.table else []  # a title may describe the drawing
    if isinstance(block, Figures):
        shared = _block(block.table) if block.table else []
        return [part for figure in block.figures for part in _block(figure)] + shared
    if isinstance(block, Prompts):
        return [
            "\n".join(
                f"- {escape_markdown(name)}: {_prompt(pieces)}" for name, pieces in block.prompts
            )
        ]
    assert isinstance(block, Gallery)
    thumbs = "\n".join(f"- {escape_markdown(thumb.caption)}" for thumb in block.thumbs)
    return [f"**{escape_markdown(block.title)}**", thumbs]


def _prompt(pieces: tuple[Piece, ...]) -> str:
    return " ".join(_piece(piece) for piece in pieces).replace(" .", ".")


def _piece(piece: Piece) -> str:
    text = escape_markdown(piece.text)
    return f"**{text}**" if piece.kind == "word" else text
