"""Image files to features: the threads that decode them, and crops that are kept."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ipl.backbone import encode_images
from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import CentreCrops, crop, encode_batches, encode_files
from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import UnreadableImageError


@pytest.mark.parametrize(
    ("cores", "given", "expected"),
    [(1, "", 4), (12, "", 12), (64, "", 16), (16, "8", 8), (16, "1", 4), (12, "4,2", 12)],
)
def test_a_thread_for_each_core_of_the_process(
    cores: int, given: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_images, "cores", lambda: cores)
    monkeypatch.setenv("OMP_NUM_THREADS", given)  # a worker of several jobs has a share
    with encode_images.decoding_threads() as threads:
        assert threads._max_workers == expected


@pytest.fixture
def paths(scenes: Dataset, tmp_path: Path) -> list[Path]:
    """Returns copies of three images, and a file that is none."""
    for index, item in enumerate(scenes.test[:3]):
        shutil.copy(str(item.path), tmp_path / f"{index}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    return [tmp_path / f"{index}.png" for index in range(4)]


def test_as_many_are_kept_as_there_is_room_for(pocket: Backbone, paths: list[Path]) -> None:
    expected = [crop(pocket, path) for path in paths[:3]]
    crops = CentreCrops(pocket, 3 * expected[0].nbytes - 1)
    for _ in range(2):
        assert np.array_equal([crops.cut(path) for path in paths[:3]], expected)
    assert isinstance(crops.cut(paths[3]), UnreadableImageError)
    for path in paths:
        path.unlink()
    assert np.array_equal([crops.cut(path) for path in paths[:2]], expected[:2])
    assert isinstance(crops.cut(paths[2]), UnreadableImageError)


def test_features_and_unreadable_images_are_those_of_the_files(
    pocket: Backbone, paths: list[Path]
) -> None:
    expected = encode_files(pocket, paths)
    assert len(expected.unreadable) == 1
    store = FeatureStore(pocket, crop_bytes=1 << 30)
    for _ in range(2):
        found = encode_files(pocket, paths, crops=store.crops)
        assert torch.equal(found.features, expected.features)
        assert (found.indices, found.unreadable) == (expected.indices, expected.unreadable)
        for path in paths[:3]:
            path.unlink(missing_ok=True)
    none = encode_files(pocket, paths, crops=FeatureStore(pocket).crops)  # keeps nothing
    assert len(none.unreadable) == 4


def test_images_that_nobody_waits_for_are_not_opened(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-C, with several batches ahead."""
    monkeypatch.setattr(encode_images, "BATCH", 2)
    monkeypatch.setattr(encode_images, "AHEAD", 100)
    opened = []

    def open_slowly(image: Image.Image) -> Image.Image:
        opened.append(image)
        time.sleep(0.02)
        return image

    monkeypatch.setattr(encode_images, "open_source", open_slowly)
    batches = encode_batches(pocket, [Image.new("RGB", (64, 64))] * 200)
    assert next(batches).images == 2
    batches.close()
    assert len(opened) < 100
