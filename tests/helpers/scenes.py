"""The drawn scenes of the package, for tests that need a few pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from PIL import Image

from ipl.datasets.scenes import ARCHIVE, CLASSES, PER_CLASS


def open_scene(name: str, index: int, style: str = "painted") -> Image.Image:
    """Returns a scene; each class has 48 painted ones, and four of every other style."""
    folder = style
    if style == "painted":
        folder = "painted/train" if index < PER_CLASS else "painted/test"
    with ZipFile(ARCHIVE) as archive, archive.open(f"{folder}/{name}/{index:03d}.jpg") as file:
        return Image.open(file).convert("RGB")


def draw_folder(root: Path, counts: Mapping[str, int], style: str = "painted") -> Path:
    """Returns a folder with a sub-folder per class and so many scenes in each."""
    for number, (name, count) in enumerate(counts.items()):
        scene = name if name in CLASSES else CLASSES[number]
        (root / name).mkdir(parents=True)
        for index in range(count):
            open_scene(scene, index, style).save(root / name / f"{index}.png")
    return root


def draw_split(images: Path, file: Path, names: Sequence[str], test: int = 2) -> None:
    """Writes a dataset with a published split file: two scenes a class to train, some to test."""

    def rows(numbers: range) -> list[list[str | int]]:
        return [[f"{n}/{i}.png", label, n] for label, n in enumerate(names) for i in numbers]

    draw_folder(images, dict.fromkeys(names, 2 + test))
    parts = {"train": rows(range(2)), "val": [], "test": rows(range(2, 2 + test))}
    file.write_text(json.dumps(parts))
