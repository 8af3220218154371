"""Finds the images that arguments name: files, folders, patterns; and reads lists of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from ipl.datasets.images import is_image_name, is_litter
from ipl.support.errors import DataError
from ipl.support.files import similar_path


def find_images(arguments: Sequence[str]) -> list[Path]:
    """The files that paths, folders (all images below) and patterns like `a/*.jpg` name.

    The name of an existing file is taken literally, even if it has stars or brackets.
    """
    paths: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if os.path.exists(path):
            paths.extend(_images_below(path))
        elif "://" in argument:
            raise DataError(
                f"URLs are not opened; fetch {argument} first and give the file's path."
            )
        elif has_magic(argument):
            matches = sorted(glob(argument, recursive=True))
            images = [
                file for match in matches for file in _images_below(Path(match), allow_empty=True)
            ]
            if not images:
                raise DataError(f"No image matches {argument}.")
            paths.extend(images)
        else:
            raise DataError(f"No such file: {path}.{similar_path(path)}")
    return list(dict.fromkeys(paths))  # `**` matches a folder and its files


def read_paths(chunks: Iterable[bytes]) -> Iterator[Path]:
    """Yields the paths in a stream of bytes: one per line, or separated by NULs if there are any.

    NULs are what `find -print0` writes. Empty lines are skipped.
    """
    separator, rest = None, b""
    for chunk in chunks:
        separator = separator or (b"\0" if b"\0" in chunk else b"\n")
        *complete, rest = (rest + chunk).split(separator)
        yield from _paths(complete, separator)
    if separator is not None:
        yield from _paths([rest], separator)


def _paths(texts: Iterable[bytes], separator: bytes) -> Iterator[Path]:
    for text in texts:
        if name := text.rstrip(b"\r") if separator == b"\n" else text:
            yield Path(os.fsdecode(name))


def _images_below(path: Path, allow_empty: bool = False) -> list[Path]:
    if not os.path.isdir(path):
        return [path]
    images = [
        file
        for file in sorted(path.rglob("*"))
        if is_image_name(file) and not is_litter(file.relative_to(path)) and file.is_file()
    ]
    if not images and not allow_empty:
        raise DataError(f"The folder {path} contains no images.")
    return images
