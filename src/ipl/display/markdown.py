"""A report as Markdown: the same sentences and numbers, without drawings."""

from __future__ import annotations

import re

from ipl.display.document import (
    Block,
    Code,
    Document,
    Figure,
    Gallery,
    Heading,
    Paragraph,
    Piece,
)
from ipl.display.table import Table, escape_markdown


def as_markdown(document: Document) -> str:
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
    """A text in one line that Markdown shows as code."""
    text, fence = " ".join(text.split()), _fence(text, least=1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
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
    if isinstance(block, Figure):
        return _block(block.table) if block.table else []  # a title may describe the drawing
    assert isinstance(block, Gallery)
    thumbs = "\n".join(f"- {escape_markdown(thumb.caption)}" for thumb in block.thumbs)
    return [f"**{escape_markdown(block.title)}**", thumbs]


def _prompt(pieces: tuple[Piece, ...]) -> str:
    texts = [(escape_markdown(piece.text), piece.kind) for piece in pieces]
    marked = (f"**{text}**" if kind == "word" else text for text, kind in texts)
    return " ".join(marked).replace(" .", ".")
