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
    redraw: bool = True,
    classes: Sequence[str] = CLASSES,
) -> Dataset:
    """Draw the scenes into a folder, as train/<class>/ and test/<class>/.

    The order of the classes makes landscapes the base half, landmarks and skies the novel half.

    Parameters
    ----------
    root : Path
        The folder to draw into; it is created if necessary.
    train : int, default=24
        Training images per class.
    test : int, default=24
        Test images per class.
    style : {"painted", "sketch", "pixel art", "night"}, default="painted"
        How the scenes are drawn.
    progress : callable, optional
        Called without arguments after each image.
    redraw : bool, default=True
        Whether to draw images again that already exist.
    classes : sequence of str, default=ipl_scenes.CLASSES
        The classes to draw, in the order of their labels.

    Returns
    -------
    Dataset
        The images that were drawn.
    """
    parts: dict[str, list[Item]] = {"train": [], "test": []}
    for label, name in enumerate(classes):
        for index in range(train + test):
            part = "train" if index < train else "test"
            path = root / part / name / f"{index:03d}.png"
            if redraw or not path.is_file() or not path.stat().st_size:
                png = BytesIO()
                draw(name, index, style).save(png, "PNG")
                write_bytes(path, png.getvalue(), sync=False)  # it can be drawn again
            parts[part].append(Item(path, label))
            if progress is not None:
                progress()
    return Dataset("drawn scenes", tuple(classes), tuple(parts["train"]), tuple(parts["test"]))


def cached_scenes() -> Dataset:
    """Returns the drawn scenes in the cache's folder, where missing images are drawn first."""
    return replace(scenes_dataset(cache_folder() / "scenes", redraw=False), name="scenes")
