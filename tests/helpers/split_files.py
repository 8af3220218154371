"""Small datasets in the published layouts, of empty files: no reader may open one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Rows = list[list[Any]]


def touch(root: Path, *names: str) -> Path:
    """Makes empty files, with their folders, and returns the root."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


def rows(classes: Sequence[str], each: int, start: int = 0) -> Rows:
    """Returns rows of a split file: `each` images of every class."""
    numbers = range(start, start + each)
    return [[f"{c}/{n:03d}.jpg", label, c] for label, c in enumerate(classes) for n in numbers]


def write_split(file: Path, **parts: Any) -> Path:
    """Writes a split file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(parts), encoding="utf-8")
    return file


def pets(root: Path, train: int = 3, test: int = 2) -> Path:
    """Returns a root with a small OxfordPets, all images there."""
    split = {"train": rows(["Tabby_Cat", "pug"], train), "val": []}
    split["test"] = rows(["Tabby_Cat", "pug"], test, start=train)
    write_split(root / "oxford_pets/split_zhou_OxfordPets.json", **split)
    touch(root / "oxford_pets/images", *(r[0] for part in split.values() for r in part))
    return root


def imagenet(root: Path, wnids: Sequence[str] = ("n01", "n02", "n03")) -> Path:
    """Returns a root with a small ImageNet: two training images and one test image a class."""
    names = ["tench", "missile", "missile"]
    lines = "".join(f"{wnid} {name}\n" for wnid, name in zip(wnids, names, strict=False))
    touch(root / "imagenet", "classnames.txt")
    (root / "imagenet/classnames.txt").write_text(lines, encoding="utf-8")
    for wnid in wnids:
        touch(root / "imagenet/images", f"train/{wnid}/b.JPEG", f"train/{wnid}/a.JPEG")
        touch(root / "imagenet/images", f"val/{wnid}/c.JPEG")
    return root
