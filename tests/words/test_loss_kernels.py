"""The kernels for rough losses against the exact ones, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.words.loss import ROUGH_SLACK, CrossEntropy, Tangents

pytest.importorskip("triton", reason="needs an NVIDIA GPU or Triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = pytest.mark.parametrize(
    ("classes", "images", "dim"), [(3, 5, 48), (70, 130, 64), (1, 1, 130)]
)


def randn(*shape: int, seed: int, size: float = 1.0) -> Tensor:
    values = size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE)


def make_loss(classes: int, images: int, dim: int) -> CrossEntropy:
    rows = normalize(randn(images, dim, seed=1), dim=-1)
    labels = torch.arange(images, device=DEVICE) % classes
    return CrossEntropy(rows, labels, classes, 100.0)


@SIZES
def test_rough_losses_are_near_the_exact_ones(classes: int, images: int, dim: int) -> None:
    loss = make_loss(classes, images, dim)
    features = randn(4, classes, dim, seed=2, size=7.0).half()
    exact, rows = loss.losses(features), torch.tensor([2, 0, 2])
    torch.testing.assert_close(loss.rough_losses(features), exact, atol=0.02, rtol=0)
    some = loss.rough_losses(features, rows)
    torch.testing.assert_close(some, exact[rows.to(DEVICE)], atol=0.02, rtol=0)


@SIZES
def test_rough_bounds_are_as_far_below_the_exact_ones_as_their_slack(
    classes: int, images: int, dim: int
) -> None:
    loss = make_loss(classes, images, dim)
    features = randn(9, classes, dim, seed=2, size=7.0).half()
    features[3, 0] = 0.0  # a text without a direction
    tangents = Tangents(loss)
    for seed in (3, 4, 5):
        tangents.add(normalize(randn(classes, dim, seed=seed).double(), dim=-1))
    for first, rows in ((0, None), (1, None), (2, torch.tensor([8, 3, 0, 3]))):
        exact = tangents.bounds(features, first, rows)
        rough = tangents.bounds(features, first, rows, rough=True)
        torch.testing.assert_close(rough + ROUGH_SLACK, exact, atol=ROUGH_SLACK / 2, rtol=0)
