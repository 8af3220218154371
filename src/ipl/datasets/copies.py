"""Copies among images: files with the same bytes, and images that look alike at a small size."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ipl.datasets.images import ImageSource, UnreadableImageError, grey_thumbnail
from ipl.support.progress import SILENT, Reporter

SIDE = 16  # pixels of the grey images that are compared
# Correlation of grey images from which on they count as copies. Of 6,800 images of eight sets, 7
# pairs of different images reach it; so do copies at half the size, or saved again as JPEG.
ALIKE = 0.95
MAX_ALIKE = 30_000  # images; comparing more with each other would take a minute or longer
BLOCK = 2048


def find_same_bytes(images: Sequence[Path | ImageSource]) -> list[list[int]]:
    """The indices of the images in files with the same bytes, as groups of two or more."""
    groups = [[index for index, image in enumerate(images) if isinstance(image, Path)]]
    for key in (_size, _digest):  # only files of the same size are read
        groups = [part for group in groups for part in _divide(images, group, key)]
    return groups


def _divide(
    images: Sequence[Path | ImageSource], group: list[int], key: Callable[[Path], Hashable]
) -> list[list[int]]:
    parts: dict[Hashable, list[int]] = defaultdict(list)
    for index in group:
        with suppress(OSError, ValueError):  # it cannot be read, which is said elsewhere
            parts[key(Path(str(images[index])))].append(index)
    parts.pop(None, None)
    return [part for part in parts.values() if len(part) > 1]


def _size(path: Path) -> int | None:
    """The size of a file; None if it is empty, or a device or pipe that may never end."""
    return os.stat(path).st_size or None if path.is_file() else None


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def find_copies(
    images: Sequence[Path | ImageSource], reporter: Reporter = SILENT
) -> list[list[int]]:
    """The indices of images that are copies of each other, as groups of two or more.

    Copies are files with the same bytes and, of at most MAX_ALIKE images, those that look alike:
    the same picture at another size, saved again, a little brighter or cropped by a pixel or two.
    """
    pairs = [(same[0], other) for same in find_same_bytes(images) for other in same[1:]]
    if len(images) <= MAX_ALIKE:
        pairs += _pairs_alike(images, reporter)
    ones, others = zip(*pairs, strict=True) if pairs else ((), ())
    size = len(images)
    graph = coo_matrix((np.ones(len(pairs)), (ones, others)), shape=(size, size))
    groups: dict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(connected_components(graph, directed=False)[1].tolist()):
        groups[group].append(index)
    return [group for group in groups.values() if len(group) > 1]


def _pairs_alike(images: Sequence[Path | ImageSource], reporter: Reporter) -> list[tuple[int, int]]:
    indices, rows = list[int](), list[np.ndarray[tuple[int], np.dtype[np.float32]]]()
    with reporter.task("Looking for copies", len(images)) as advance:
        for index, image in enumerate(images):
            with suppress(UnreadableImageError):
                row = grey_thumbnail(image, SIDE).astype(np.float32).ravel()
                row -= row.mean()
                if (norm := float(np.linalg.norm(row))) > SIDE:  # else it shows a single tone
                    indices.append(index)
                    rows.append(row / norm)
            advance()
    if not rows:
        return []
    pairs, every = list[tuple[int, int]](), np.stack(rows)
    for start in range(0, len(every), BLOCK):
        alike = every[start : start + BLOCK] @ every.T > ALIKE
        for i, j in np.argwhere(alike):
            if start + i < j:
                pairs.append((indices[start + i], indices[j]))
    return pairs
