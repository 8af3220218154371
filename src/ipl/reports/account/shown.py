"""How numbers and pictures are shown in a report."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from ipl.datasets import Item, UnreadableImageError, small_jpeg
from ipl.prompts import ClassName, PromptLayout, Soft, WordSlot
from ipl.prompts.layout import Text as FixedText
from ipl.reports.document import Piece

SIDE = 96  # pixels of a small picture


def number(value: float, digits: int = 4) -> str:
    """Returns a number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 4) -> str:
    """Returns a number with its sign, plus or minus."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None, digits: int = 1) -> str:
    """Returns a share as per cent; nothing for None."""
    return "" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def points(value: float) -> str:
    """Returns a difference of shares in percentage points, with its sign."""
    return signed(100 * value, 1)


def several(count: int, one: str, many: str | None = None) -> str:
    """Returns "1 word" or "2 words"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Returns "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def ordinal(place: int) -> str:
    """Returns 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{place}{'th' if place % 100 in (11, 12, 13) else ends.get(place % 10, 'th')}"


def file_name(item: Item) -> str:
    """Returns a picture's folder and file, without the rest of its path."""
    return "/".join(Path(str(item.path)).parts[-2:])


def thumbnail(item: Item) -> str | None:
    """Returns a small JPEG of a picture as a data URI; None if it can no longer be opened."""
    try:
        data = small_jpeg(item.path, SIDE)
    except UnreadableImageError:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")


def pieces(line: str) -> tuple[Piece, ...]:
    """Returns the pieces of a saved prompt's line of text, in order."""
    layout, words = PromptLayout.parse(line)
    waiting, found = iter(words), list[Piece]()
    for segment in layout.segments:
        if isinstance(segment, Soft):
            found.append(Piece("soft", "[" + " ".join("V" * segment.size) + "]"))
        elif isinstance(segment, WordSlot):
            found.append(Piece("word", next(waiting, "_")))
        elif isinstance(segment, ClassName):
            found.append(Piece("class", "class name"))
        elif isinstance(segment, FixedText):
            found.append(Piece("text", segment.text))
    return tuple(found)
