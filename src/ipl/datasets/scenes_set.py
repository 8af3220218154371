"""The drawn scenes as a data set on disk."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.scenes import CLASSES, draw
from ipl.files import write_bytes


def scenes_dataset(
    root: Path,
    train: int = 24,
    test: int = 24,
    style: str = "painted",
    progress: Callable[[], None] | None = None,
) -> Dataset:
    """Returns the drawn scenes, drawn into `root` as train/<class>/ and test/<class>/.

    The order of classes is the data set's own: landscapes are the base half, landmarks and skies
    the novel half.
    """
    parts: dict[str, list[Item]] = {"train": [], "test": []}
    for label, name in enumerate(CLASSES):
        for index in range(train + test):
            part = "train" if index < train else "test"
            path = root / part / name / f"{index:03d}.png"
            png = BytesIO()
            draw(name, index, style).save(png, "PNG")
            write_bytes(path, png.getvalue())
            parts[part].append(Item(path, label))
            if progress is not None:
                progress()
    return Dataset("drawn scenes", CLASSES, tuple(parts["train"]), tuple(parts["test"]))
