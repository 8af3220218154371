"""Shared by all tests: the bundled backbone, loaded once, and pictures to look at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

from ipl.backbone import Backbone, load_backbone
from ipl.datasets import Dataset, scenes_dataset


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Points IPL_CACHE at a temporary folder; yields a folder after the other for the tests."""
    base = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPL_CACHE", str(base / "shared"))  # for fixtures that many tests share
        yield (base / str(number) for number in count(1))


@pytest.fixture(autouse=True)
def _own_cache(_no_cache_of_the_user: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test an empty cache; the folder is there once something was kept."""
    monkeypatch.setenv("IPL_CACHE", str(next(_no_cache_of_the_user)))


@pytest.fixture(scope="session")
def pocket() -> Backbone:
    """Returns PocketCLIP on the CPU in fp32."""
    return load_backbone("pocket", "cpu")


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Returns the drawn scenes with four pictures per class to train and four to test on."""
    return scenes_dataset(tmp_path_factory.mktemp("scenes"), train=4, test=4)


@pytest.fixture(scope="session")
def scenes_folder(scenes: Dataset) -> Path:
    """Returns the folder of the drawn scenes, with train/ and test/ inside."""
    return scenes.train[0].path.parents[2]


@pytest.fixture
def few_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns twelve random normalised image features of three classes, and their labels."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 512, generator=generator)
    return torch.nn.functional.normalize(features, dim=-1), torch.arange(12) % 3
