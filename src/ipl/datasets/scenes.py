"""The drawn scenes: a small dataset in an archive of the package, and as files in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

from ipl.datasets.dataset import Dataset, Item
from ipl.support.cache import cache_folder
from ipl.support.files import write_bytes

ARCHIVE = Path(__file__).parent / "drawn_scenes" / "scenes.zip"
PER_CLASS = 24  # images of each class to draw shots from, and as many to test on
# Landscapes are the base half, landmarks and skies the novel half.
CLASSES = (
    *("beach", "desert", "forest", "mountain", "snowfield"),
    *("volcano", "waterfall", "lake", "island", "canyon"),
    *("skyline", "village", "castle", "lighthouse", "bridge"),
    *("windmill", "sunset", "starry night", "rainbow", "thunderstorm"),
)


def scenes_dataset(
    root: Path,
    train: int = PER_CLASS,
    test: int = PER_CLASS,
    classes: Sequence[str] = CLASSES,
) -> Dataset:
    """Unpacks scenes into a folder, as train/<class>/ and test/<class>/, and returns them.

    `train` and `test` are images per class, of which there are 24 each. Images that are there
    already are left alone.
    """
    parts: dict[str, list[Item]] = {"train": [], "test": []}
    with ZipFile(ARCHIVE) as archive:
        for label, name in enumerate(classes):
            for part, first, count in (("train", 0, train), ("test", PER_CLASS, test)):
                for index in range(first, first + count):
                    image = f"{part}/{name}/{index:03d}.jpg"
                    packed, path = archive.getinfo(f"painted/{image}"), root / image
                    if not path.is_file() or path.stat().st_size != packed.file_size:
                        write_bytes(path, archive.read(packed), sync=False)  # can be done again
                    parts[part].append(Item(path, label))
    return Dataset("drawn scenes", tuple(classes), tuple(parts["train"]), tuple(parts["test"]))


def cached_scenes() -> Dataset:
    """The drawn scenes in the cache's folder; missing images are unpacked first."""
    return replace(scenes_dataset(cache_folder() / "scenes"), name="scenes")
