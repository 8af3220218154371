"""Which images a person means: files, folders, patterns, or paths line by line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from ipl.datasets.images import files_below, is_image_name
from ipl.support.errors import DataError
from ipl.support.files import is_folder, path_exists


def find_images(given: Sequence[str]) -> list[Path]:
    """Returns the files meant by paths, folders (all images below) and patterns like `a/*.jpg`.

    A name that is there is taken as it is, whatever stars or brackets it has.
    """
    found: list[Path] = []
    for text in given:
        path = Path(text)
        if path_exists(path):
            found.extend(_below(path))
        elif "://" in text:
            raise DataError(f"URLs are not opened; fetch {text} first and give the file's path.")
        elif has_magic(text):
            matches = sorted(glob(text, recursive=True))
            inside = [file for match in matches for file in _below(Path(match), empty=True)]
            if not inside:
                raise DataError(f"No image matches {text}.")
            found.extend(inside)
        else:
            raise DataError(f"No such file: {path}.")
    return list(dict.fromkeys(found))  # `**` matches a folder and what is in it


def paths_in(chunks: Iterable[bytes]) -> Iterator[Path]:
    """Yields the paths in bytes as they come: one a line, or between NULs if there are any.

    The latter is what `find -print0` writes. Empty lines are passed over.
    """
    between, left = None, b""
    for chunk in chunks:
        between = between or (b"\0" if b"\0" in chunk else b"\n")
        *whole, left = (left + chunk).split(between)
        yield from _paths(whole, between)
    if between is not None:
        yield from _paths([left], between)


def _paths(texts: Iterable[bytes], between: bytes) -> Iterator[Path]:
    for text in texts:
        if name := text.rstrip(b"\r") if between == b"\n" else text:
            yield Path(os.fsdecode(name))


def _below(path: Path, empty: bool = False) -> list[Path]:
    if not is_folder(path):
        return [path]
    inside = [file for file in files_below(path) if is_image_name(file)]
    if not inside and not empty:
        raise DataError(f"The folder {path} holds no images.")
    return inside
