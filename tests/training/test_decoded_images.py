"""Images that are decoded once: crops as from the files, memory within its limit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import crop
from ipl.datasets.dataset import Dataset
from ipl.support.errors import TrainingError
from ipl.training import decoded_images
from ipl.training.decoded_images import DecodedImages


@pytest.fixture(scope="module")
def paths(scenes: Dataset) -> list[Path]:
    return [item.path for item in scenes.train[:4]]


def streams(count: int) -> list[random.Random | None]:
    return [None if index == 1 else random.Random(index) for index in range(count)]


@pytest.mark.parametrize("kept", [4, 2, 0])
def test_crops_are_those_of_the_files_and_memory_is_bounded(
    pocket: Backbone, paths: list[Path], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    width, height = decoded_images.open_source(paths[0]).size
    monkeypatch.setattr(decoded_images, "KEPT_BYTES", kept * 3 * width * height)
    opened: list[object] = []
    plain = decoded_images.open_source
    monkeypatch.setattr(
        decoded_images, "open_source", lambda source: (opened.append(source), plain(source))[1]
    )
    images, chosen = DecodedImages(pocket, paths), [3, 1, 0, 2]
    for _ in range(3):
        found = images.crops(chosen, streams(4))
        expected = [crop(pocket, paths[i], s) for i, s in zip(chosen, streams(4), strict=True)]
        assert np.array_equal(found.numpy(), np.stack(expected))
    assert len(opened) == 4 + 2 * (4 - kept)  # every image once, those without room each time


def test_an_image_that_became_unreadable(pocket: Backbone, tmp_path: Path) -> None:
    (tmp_path / "gone.png").write_bytes(b"no image")
    with pytest.raises(TrainingError, match="became unreadable during training"):
        DecodedImages(pocket, [tmp_path / "gone.png"]).crops([0], [None])


@pytest.mark.gpu
def test_on_a_gpu_the_crops_are_the_same_bytes(paths: list[Path]) -> None:
    from ipl.backbone.loading import load_backbone

    backbone = load_backbone("pocket", "cuda")
    images = decoded_images.decoded_images(backbone, paths, random_crops=True)
    assert type(images) is decoded_images.ImagesOnGpu
    some = [random.Random(index) for index in range(4)]
    again = [random.Random(index) for index in range(4)]
    found = images.crops([0, 1, 2, 3], some)
    assert found.is_cuda
    assert torch.equal(found.cpu(), DecodedImages(backbone, paths).crops([0, 1, 2, 3], again))
