"""Images that deserve a look: mistakes in order, labels that contradict, near-duplicates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Item
from ipl.explain.doubtful_images import (
    find_doubtful_images,
    wrong_images,
)
from ipl.explain.report import Analysis

NAMES = ("cat", "dog")


def test_mistakes_are_in_the_order_of_their_certainty() -> None:
    probabilities = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]])
    items = [Item(Path(f"{index}.png"), 0) for index in range(4)]
    found = wrong_images(items, probabilities.log(), NAMES)
    assert [image.item.path.name for image in found] == ["2.png", "3.png", "1.png"]
    assert [image.predicted for image in found] == ["dog"] * 3
    assert found[0].probability == pytest.approx(0.8)
    assert found[0].true_probability == pytest.approx(0.2)


def test_a_wrong_label_is_found(analysis: Analysis) -> None:
    """The label of the shot that the prompt is surest of is turned to another class."""
    run, run_images = analysis.run, analysis.run_images
    assert run_images is not None
    shots = run_images.shots
    probabilities = run.learner.log_probabilities(shots.features).exp()
    correct = probabilities.argmax(1) == shots.labels
    surest = int((probabilities.max(1).values * correct).argmax())
    assert float(probabilities[surest].max()) > 0.5
    items = list(shots.items)
    items[surest] = Item(items[surest].path, (items[surest].label + 1) % 4)
    damaged = replace(run_images, shots=replace(shots, items=tuple(items)))
    predictions = run.learner.log_probabilities(run_images.features)
    before = find_doubtful_images(run, run_images, predictions)
    found = find_doubtful_images(run, damaged, predictions)
    assert found.label_error_count == before.label_error_count + 1
    assert items[surest] in [image.item for image in found.label_errors]
    assert found.mistake_count == int((predictions.argmax(1) != run_images.test.labels).sum())


def test_a_repeated_image_is_found(analysis: Analysis) -> None:
    run, run_images = analysis.run, analysis.run_images
    assert run_images is not None
    generator = torch.Generator().manual_seed(0)
    features = normalize(torch.randn(16, 512, generator=generator), dim=1)
    shots = LabelledFeatures(run_images.shots.items, features, ())
    repeated = normalize(features[3] + 0.001 * torch.randn(512, generator=generator), dim=0)
    others = normalize(torch.randn(15, 512, generator=generator), dim=1)
    test = replace(run_images.test, features=torch.cat([others, repeated[None]]))
    predictions = run.learner.log_probabilities(run_images.features)
    images = replace(run_images, shots=shots, test=test)
    found = find_doubtful_images(run, images, predictions)
    assert found.duplicate_count == 1
    (pair,) = found.duplicates
    assert pair.training == shots.items[3]
    assert pair.held_out == test.items[15]
    assert pair.cosine > 0.99
