"""What the tests of learners share: a batch of images."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Batch


@pytest.fixture(scope="module")
def batch(pocket: Backbone) -> Batch:
    """Returns four random images of three classes."""
    pixels = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = normalize(pocket.encode_image(pixels), dim=-1)
    return Batch(torch.tensor([2, 0, 1, 1]), features, pixels)
