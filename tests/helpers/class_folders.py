"""Folders of drawn images, with a sub-folder per class."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.scenes import open_scene


def write_class_folders(folder: Path, style: str, names: tuple[str, ...]) -> None:
    """Writes a folder of three drawn images for each class."""
    for name in names:
        (folder / name).mkdir(parents=True)
        for index in range(3):
            open_scene(name, index, style).save(folder / name / f"{index}.png")
