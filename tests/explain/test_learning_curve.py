"""The learning curve of a linear probe: its sizes, and that more images help where they do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.datasets.dataset import Item
from ipl.explain.learning_curve import learning_curve


def _images(count: int, seed: int) -> LabelledFeatures:
    """Returns images of four classes that overlap."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 4
    noise = 0.6 * torch.randn(count, 8, generator=generator)
    items = tuple(Item(Path(f"{i}.png"), int(label)) for i, label in enumerate(labels))
    return LabelledFeatures(items, normalize(torch.eye(8)[labels] + noise, dim=1), ())


def test_parts_of_the_images_and_all_of_them() -> None:
    shots, test = _images(64, 0), _images(200, 1)
    curve = learning_curve(shots, test, 4)
    assert [point.images for point in curve] == [16, 32, 64]
    probe = fit_linear_probe(shots.features, shots.labels, 4)
    right = probe.logits(test.features).argmax(1) == test.labels
    assert curve[-1].accuracy == pytest.approx(float(right.double().mean()))
    assert curve[0].accuracy < curve[-1].accuracy


def test_one_image_of_each_class_has_no_curve() -> None:
    assert len(learning_curve(_images(4, 0), _images(20, 1), 4)) == 1
