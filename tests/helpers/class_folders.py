"""Folders of drawn images, with a sub-folder per class."""

from __future__ import annotations

from pathlib import Path

from ipl_scenes import draw


def write_class_folders(folder: Path, style: str, names: tuple[str, ...]) -> None:
    """Writes a folder of three drawn images for each class."""
    for name in names:
        (folder / name).mkdir(parents=True)
        for index in range(3):
            draw(name, index, style).save(folder / name / f"{index}.png")
