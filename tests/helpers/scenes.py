"""The drawn scenes of the package, for tests that need a few pictures."""

from __future__ import annotations

from zipfile import ZipFile

from PIL import Image

from ipl.datasets.scenes import ARCHIVE, PER_CLASS


def open_scene(name: str, index: int, style: str = "painted") -> Image.Image:
    """Returns a scene; each class has 48 painted ones, and four of every other style."""
    folder = style
    if style == "painted":
        folder = "painted/train" if index < PER_CLASS else "painted/test"
    with ZipFile(ARCHIVE) as archive, archive.open(f"{folder}/{name}/{index:03d}.jpg") as file:
        return Image.open(file).convert("RGB")
