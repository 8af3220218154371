"""Which images are there: folders are listed, no image is looked at one by one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ipl.datasets.dataset import Item
from ipl.support.errors import DataError


def missing_files(items: Iterable[Item]) -> list[Path]:
    """Returns the images that are not on the disk, in the order of the items."""
    listed: dict[Path, frozenset[str]] = {}
    missing = []
    for path, _ in items:
        if not isinstance(path, Path):  # inside another library's dataset
            continue
        folder = path.parent
        if folder not in listed:
            listed[folder] = _names(folder)
        if path.name not in listed[folder]:
            missing.append(path)
    return missing


def check_files(name: str, items: Sequence[Item]) -> None:
    """Raises DataError with the number of images that are missing and the first of them."""
    missing = missing_files(items)
    if missing:
        raise DataError(
            f"{name}: {len(missing):,} of {len(items):,} images are missing, first: {missing[0]}."
        )


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()
