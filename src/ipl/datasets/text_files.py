"""Reading the small text files beside the images."""

from __future__ import annotations

from pathlib import Path

from ipl.support.errors import DataError


def read_text(path: Path, hint: str = "") -> str:
    """Returns a UTF-8 text; `hint` says where a file that is missing comes from."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"No such file: {path}{'; ' if hint else ''}{hint}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text: {error}.") from None


def read_lines(path: Path, hint: str = "") -> list[tuple[int, str]]:
    """Returns the lines that are not blank, without white space around them, and their numbers."""
    lines = enumerate(read_text(path, hint).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]
