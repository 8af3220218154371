"""Shared by all tests: the bundled backbone, loaded once, and pictures to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ipl.backbone import Backbone, load_backbone
from ipl.datasets import Dataset, scenes_dataset


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
