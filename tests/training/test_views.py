"""Views of the training images: none, a bank of them, fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.features import FeatureStore, encode_files
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Dataset, Item
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch, Learner
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import PromptSRC
from ipl.support.progress import SILENT
from ipl.training.views import BankedViews, View, make_views


@pytest.fixture(scope="module")
def paths(scenes: Dataset) -> list[Path]:
    return [item.path for item in scenes.train[:6]]


def seen(pocket: Backbone, paths: list[Path]) -> LabelledFeatures:
    items = tuple(Item(path, index % 3) for index, path in enumerate(paths))
    return LabelledFeatures(items, encode_files(pocket, paths).features, ())


def batch_of(views: View, epoch: int, indices: torch.Tensor) -> Batch:
    return next(views.batches([(epoch, indices)]))


def test_no_views_is_the_centre_crop_computed_once(
    pocket: Backbone, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shots = seen(pocket, paths)
    monkeypatch.setattr(ClipBackbone, "encode_image", None)  # any further look would fail
    views = make_views(0, CoOp, pocket, shots, 1, SILENT)
    batch = batch_of(views, 3, torch.tensor([4, 0]))
    assert torch.equal(batch.features, shots.features[[4, 0]])
    assert batch.labels.tolist() == [shots.items[4].label, shots.items[0].label]
    assert batch.pixels is None


def test_a_bank_of_views(pocket: Backbone, paths: list[Path]) -> None:
    views = make_views(3, CoOp, pocket, seen(pocket, paths), 1, SILENT)
    assert isinstance(views, BankedViews)
    assert views.features.shape == (3, 6, 512)
    every = torch.arange(6)
    drawn = torch.stack([batch_of(views, epoch, every).features for epoch in range(20)])
    assert torch.equal(drawn[0], batch_of(views, 0, every).features)
    assert all((row == views.features[:, 2]).all(-1).any() for row in drawn[:, 2])
    assert len(drawn[:, 2].unique(dim=0)) == 3  # all views of an image get their turn
    assert not torch.allclose(views.features[0], views.features[1], atol=1e-3)


def test_fresh_views_differ_by_epoch_and_repeat_by_seed(
    pocket: Backbone, paths: list[Path]
) -> None:
    shots, every = seen(pocket, paths), torch.tensor([5, 1])
    first, same, other = (make_views("fresh", CoOp, pocket, shots, s, SILENT) for s in (1, 1, 2))

    def features(views: View, epoch: int, indices: torch.Tensor = every) -> torch.Tensor:
        found = batch_of(views, epoch, indices).features
        assert found is not None
        return found

    assert torch.equal(features(first, 0), features(same, 0))
    assert not torch.allclose(features(first, 0), features(first, 1), atol=1e-3)
    assert not torch.allclose(features(first, 0), features(other, 0), atol=1e-3)
    # an image's crop does not depend on its company
    alone = features(first, 0, torch.tensor([1]))
    torch.testing.assert_close(alone, features(first, 0)[1:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("number", [0, 2, "fresh"])
@pytest.mark.parametrize("room", [1 << 30, 3])
def test_the_frozen_features_are_of_the_same_crops(
    pocket: Backbone,
    paths: list[Path],
    number: int | str,
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # kept in memory, or read again
    monkeypatch.setattr("ipl.training.crops.available_memory", lambda: 4 * room)
    shots, indices, crops = seen(pocket, paths), torch.tensor([4, 1, 2]), []
    views = make_views(number, PromptSRC, pocket, shots, 3, SILENT)
    for epoch in (0, 1, 2, 0):
        batch = batch_of(views, epoch, indices)
        with torch.no_grad():
            frozen = normalize(pocket.encode_image(batch.pixels), dim=-1)
        torch.testing.assert_close(batch.features, frozen, atol=1e-5, rtol=0)
        assert torch.equal(batch.labels, shots.labels[indices])
        crops.append(batch.pixels)
    assert torch.equal(crops[3], crops[0])
    assert torch.equal(crops[0], crops[1]) == (number == 0)
    for kind, features, pixels in ((MaPLe, False, True), (CoOp, True, False)):
        batch = batch_of(make_views(number, kind, pocket, shots, 1, SILENT), 0, indices)
        assert (batch.features is not None, batch.pixels is not None) == (features, pixels)


# -- fits that share a store ----------------------------------------------------------------------


def check_same(views: View, alone: View) -> None:
    """Fails unless two views give the same bits."""
    for epoch in range(3):
        first, second = (batch_of(each, epoch, torch.tensor([4, 0, 5])) for each in (views, alone))
        for name in ("labels", "features", "pixels"):
            values = getattr(first, name), getattr(second, name)
            assert values == (None, None) or torch.equal(*values)


@pytest.mark.parametrize(
    ("number", "kinds", "times"),
    [
        (0, (CoOp, PromptSRC, CoOp, MaPLe), 1),
        (2, (PromptSRC, MaPLe, CoOp, PromptSRC), 1),
        (2, (CoOp, PromptSRC, CoOp, MaPLe), 2),  # features alone, then the bytes
        ("fresh", (CoOp, PromptSRC, CoOp, MaPLe), 1),
    ],
)
def test_the_crops_of_a_store_are_cut_once(
    pocket: Backbone,
    paths: list[Path],
    number: int | str,
    kinds: tuple[type[Learner], ...],
    times: int,
    opened: list[object],
) -> None:
    store, shots = FeatureStore(pocket), seen(pocket, paths)
    shared = [make_views(number, kind, pocket, shots, 1, SILENT, store) for kind in kinds]
    batch_of(shared[0], 0, torch.arange(6))
    assert len(opened) == 6 * times
    for kind, views in zip(kinds, shared, strict=True):
        check_same(views, make_views(number, kind, pocket, shots, 1, SILENT))


def test_other_images_seeds_and_numbers_have_crops_of_their_own(
    pocket: Backbone, paths: list[Path]
) -> None:
    store, shots, fewer = FeatureStore(pocket), seen(pocket, paths), seen(pocket, paths[::-1])
    for given in ((2, shots, 1), (2, shots, 2), (3, shots, 1), (2, fewer, 1), (2, shots, 1)):
        number, some, seed = given
        views = make_views(number, PromptSRC, pocket, some, seed, SILENT, store)
        check_same(views, make_views(number, PromptSRC, pocket, some, seed, SILENT))
