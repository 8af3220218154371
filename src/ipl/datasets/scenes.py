"""The drawn scenes as a dataset on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from ipl.datasets.dataset import Dataset, Item
from ipl.support.cache import cache_folder
from ipl.support.files import write_bytes
from ipl_scenes import CLASSES, draw

PER_CLASS = 24  # images of each class to draw shots from, and as many to test on


def scenes_dataset(
    root: Path,
    train: int = PER_CLASS,
    test: int = PER_CLASS,
    style: str = "painted",
    progress: Callable[[], None] | None = None,
    anew: bool = True,
    classes: Sequence[str] = CLASSES,
) -> Dataset:
    """Returns the drawn scenes, drawn into `root` as train/<class>/ and test/<class>/.

    The order of classes is the dataset's own: landscapes are the base half, landmarks and skies
    the novel half. Unless drawn `anew`, images that are there are left as they are.
    """
    parts: dict[str, list[Item]] = {"train": [], "test": []}
    for label, name in enumerate(classes):
        for index in range(train + test):
            part = "train" if index < train else "test"
            path = root / part / name / f"{index:03d}.png"
            if anew or not path.is_file():
                png = BytesIO()
                draw(name, index, style).save(png, "PNG")
                write_bytes(path, png.getvalue())
            parts[part].append(Item(path, label))
            if progress is not None:
                progress()
    return Dataset("drawn scenes", tuple(classes), tuple(parts["train"]), tuple(parts["test"]))


def kept_scenes() -> Dataset:
    """Returns the drawn scenes in the cache's folder; what is missing there is drawn first."""
    return replace(scenes_dataset(cache_folder() / "scenes", anew=False), name="scenes")
