"""Images that deserve a look: mistakes in order, planted label errors, near-duplicates."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, encode_items
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.datasets.dataset import Item
from ipl.datasets.scenes import scenes_dataset
from ipl.explain.inputs import RunImages
from ipl.explain.labels import LABEL_ERRORS, duplicate_pairs, likely_label_errors
from ipl.explain.mistakes import with_nearest, wrong_images

NAMES = ("cat", "dog", "owl")


def test_mistakes_are_in_the_order_of_their_certainty() -> None:
    probabilities = torch.tensor(
        [[0.9, 0.1, 0.0], [0.3, 0.6, 0.1], [0.05, 0.8, 0.15], [0.25, 0.7, 0.05]]
    )
    items = [Item(Path(f"{index}.png"), 0) for index in range(4)]
    found = wrong_images(items, probabilities.log(), NAMES)
    assert [image.item.path.name for image in found] == ["2.png", "3.png", "1.png"]
    assert [image.predicted for image in found] == ["dog"] * 3
    assert [image.runner_up for image in found] == ["owl", "cat", "cat"]
    assert found[0].label_probability == pytest.approx(0.05)
    assert found[0].text == "cat taken for dog (80\xa0%), then owl (15\xa0%); cat 5\xa0%"
    assert found[1].text == "cat taken for dog (70\xa0%), then cat (25\xa0%)"


def test_a_mistake_stands_beside_the_training_images_that_look_like_it(
    run_images: RunImages,
) -> None:
    assert run_images.shots is not None
    turned = -torch.eye(4)[run_images.test.labels]  # the label is the least probable
    mistakes = wrong_images(run_images.test.items, turned.log_softmax(1), "abcd")
    (first, *_) = with_nearest(mistakes, run_images.test, run_images.shots)
    row = run_images.test.items.index(first.item)
    cosines = run_images.shots.features @ run_images.test.features[row]
    expected = [run_images.shots.items[i] for i in cosines.argsort(descending=True)[:3]]
    assert list(first.nearest) == expected


def test_planted_label_errors_are_among_the_first_twenty(pocket: Backbone, tmp_path: Path) -> None:
    scenes = scenes_dataset(tmp_path, train=16, test=0)
    shots = encode_items(scenes.train, "training", FeatureStore(pocket))
    stream, count = random.Random(3), len(scenes.class_names)
    planted = stream.sample(range(len(shots.items)), 10)
    items = list(shots.items)
    for index in planted:
        label = (items[index].label + stream.randrange(1, count)) % count
        items[index] = Item(items[index].path, label)
    damaged = LabelledFeatures(tuple(items), shots.features, ())
    zero_shot = zero_shot_logits(pocket, scenes.class_names, shots.features)
    found = likely_label_errors(damaged, zero_shot, scenes.class_names)
    assert found is not None
    first = {wrong.item.path for wrong in found[:LABEL_ERRORS]}
    assert len(first & {items[index].path for index in planted}) >= 8


def test_one_image_of_a_class_cannot_be_checked() -> None:
    items = tuple(Item(Path(f"{i}.png"), label) for i, label in enumerate((0, 0, 1)))
    shots = LabelledFeatures(items, torch.eye(3), ())
    assert likely_label_errors(shots, torch.zeros(3, 2), NAMES[:2]) is None


def test_a_repeated_image_is_found(run_images: RunImages) -> None:
    assert run_images.shots is not None
    generator = torch.Generator().manual_seed(0)
    features = normalize(torch.randn(16, 512, generator=generator), dim=1)
    repeated = normalize(features[3] + 0.001 * torch.randn(512, generator=generator), dim=0)
    others = normalize(torch.randn(15, 512, generator=generator), dim=1)
    shots = LabelledFeatures(run_images.shots.items, features, ())
    test = LabelledFeatures(run_images.test.items, torch.cat([others, repeated[None]]), ())
    (pair,) = duplicate_pairs(shots, test)
    assert (pair.training, pair.held_out) == (shots.items[3], test.items[15])
    assert pair.cosine > 0.99
