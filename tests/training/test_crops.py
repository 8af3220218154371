"""Images that are decoded once: crops as from the files, memory within its limit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ipl.backbone.backbone import Backbone
from ipl.backbone.preprocessing import random_crop_box
from ipl.datasets.dataset import Dataset
from ipl.support.errors import TrainingError
from ipl.training.crops import ImageCrops


@pytest.fixture(scope="module")
def paths(scenes: Dataset) -> list[Path]:
    return [Path(str(item.path)) for item in scenes.train[:4]]


def stream(batch: int, image: int) -> random.Random | None:
    return None if image == 1 else random.Random(f"{batch}/{image}")


def by_pillow(path: Path, backbone: Backbone, stream: random.Random | None) -> np.ndarray:
    """Returns a crop of a file, made in the plainest way."""
    image = Image.open(path).convert("RGB")
    if stream is None:
        return backbone.preprocessing.evaluate(image)
    size = (backbone.preprocessing.crop,) * 2
    box = random_crop_box(image.size, stream)
    crop = np.asarray(image.resize(size, Image.Resampling.BICUBIC, box=box))
    return crop[:, ::-1] if stream.random() < 0.5 else crop


@pytest.mark.parametrize("kept", [4, 2, 0])
def test_crops_are_those_of_the_files_and_memory_is_bounded(
    pocket: Backbone,
    paths: list[Path],
    kept: int,
    opened: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    width, height = Image.open(paths[0]).size
    room = kept * 4 * width * height
    monkeypatch.setattr("ipl.training.crops.available_memory", lambda: 4 * max(room, 1))
    chosen = [3, 1, 0, 2]
    batches = [[(image, stream(batch, image)) for image in chosen] for batch in range(40)]
    for batch, found in enumerate(ImageCrops(pocket, paths).crops(batches)):
        expected = [by_pillow(paths[image], pocket, stream(batch, image)) for image in chosen]
        assert np.array_equal(found.numpy()[..., :3], np.stack(expected))
    assert len(opened) == kept + 40 * (4 - kept)  # those without room each time


def test_threads_cut_only_a_few_batches_ahead(pocket: Backbone, paths: list[Path]) -> None:
    taken: list[int] = []

    def batches() -> Iterator[list[tuple[int, None]]]:
        for number in range(1000):
            taken.append(number)
            yield [(0, None)]

    crops = ImageCrops(pocket, paths).crops(batches())
    for number in range(5):
        next(crops)
        assert len(taken) <= number + 20
    crops.close()  # as when a training is stopped


def test_an_image_that_became_unreadable(pocket: Backbone, tmp_path: Path) -> None:
    (tmp_path / "gone.png").write_bytes(b"no image")
    with pytest.raises(TrainingError, match="became unreadable during training"):
        next(ImageCrops(pocket, [tmp_path / "gone.png"]).crops([[(0, None)]]))
