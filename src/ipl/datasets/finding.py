"""Which pictures a person means: files, folders, patterns, or paths line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from ipl.datasets.images import files_below, is_image_name
from ipl.errors import DataError
from ipl.files import is_folder, is_there


def find_images(given: Sequence[str]) -> list[Path]:
    """Returns the files meant by paths, folders (all pictures below) and patterns like `a/*.jpg`.

    A name that is there is taken as it is, whatever stars or brackets it has.
    """
    found: list[Path] = []
    for text in given:
        path = Path(text)
        if is_there(path):
            found.extend(_below(path))
        elif has_magic(text):
            matches = sorted(glob(text, recursive=True))
            inside = [file for match in matches for file in _below(Path(match), empty=True)]
            if not inside:
                raise DataError(f"No image matches {text}.")
            found.extend(inside)
        else:
            raise DataError(f"No such file: {path}.")
    return list(dict.fromkeys(found))  # `**` matches a folder and what is in it


def paths_of_lines(lines: Iterable[str]) -> Iterator[Path]:
    """Yields the path on each line that is not empty, as it comes."""
    for line in lines:
        if text := line.rstrip("\r\n"):
            yield Path(text)


def _below(path: Path, empty: bool = False) -> list[Path]:
    if not is_folder(path):
        return [path]
    inside = [file for file in files_below(path) if is_image_name(file)]
    if not inside and not empty:
        raise DataError(f"The folder {path} holds no images.")
    return inside
