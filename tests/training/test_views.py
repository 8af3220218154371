"""Views of the training images: none, a bank of them, fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.encode_images import encode_files
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Dataset, Item
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch, Learner
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import PromptSRC
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT
from ipl.training import decoded_images
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


@pytest.mark.parametrize("views", [-1, "stale"])
def test_what_is_no_view(pocket: Backbone, views: object) -> None:
    nothing = LabelledFeatures((), torch.zeros(0, 512), ())
    with pytest.raises(ConfigError, match="views is"):
        make_views(views, CoOp, pocket, nothing, 1, SILENT)  # type: ignore[arg-type]


# -- fits that share a store ----------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Returns the images that were opened for crops, one entry for each time."""
    images: list[object] = []
    plain = decoded_images.open_source
    monkeypatch.setattr(
        decoded_images, "open_source", lambda source: (images.append(source), plain(source))[1]
    )
    return images


def check_same(views: View, alone: View) -> None:
    """Fails unless two views give the same bits."""
    for epoch in range(3):
        first, second = (batch_of(each, epoch, torch.tensor([4, 0, 5])) for each in (views, alone))
        for name in ("labels", "features", "pixels"):
            values = getattr(first, name), getattr(second, name)
            assert values == (None, None) or torch.equal(*values)


@pytest.mark.parametrize(
    ("number", "kinds", "keeps_crops", "times"),
    [
        (0, (CoOp, PromptSRC, CoOp, MaPLe), True, 1),
        (2, (PromptSRC, MaPLe, CoOp, PromptSRC), False, 1),
        (2, (CoOp, PromptSRC, CoOp, MaPLe), False, 2),  # features alone, then the bytes
        (2, (CoOp, PromptSRC, CoOp, MaPLe), True, 1),
        ("fresh", (CoOp, PromptSRC, CoOp, MaPLe), False, 1),
    ],
)
def test_the_crops_of_a_store_are_cut_once(
    pocket: Backbone,
    paths: list[Path],
    number: int | str,
    kinds: tuple[type[Learner], ...],
    keeps_crops: bool,
    times: int,
    opened: list[object],
) -> None:
    store, shots = FeatureStore(pocket, keeps_crops=keeps_crops), seen(pocket, paths)
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


def test_a_store_keeps_no_more_crops_than_a_fit_may(
    pocket: Backbone, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    crops = 2 * len(paths) * 3 * pocket.preprocessing.crop**2
    monkeypatch.setattr(decoded_images, "available_memory", lambda: 6 * crops)
    store, shots = FeatureStore(pocket), seen(pocket, paths)
    for seed in (1, 2, 2, 1):  # there is room for the crops of one seed
        views = make_views(2, MaPLe, pocket, shots, seed, SILENT, store)
        check_same(views, make_views(2, MaPLe, pocket, shots, seed, SILENT))
    assert store.kept.get(("crops", tuple(paths), 2, 1)).nbytes == crops
    assert store.kept.get(("crops", tuple(paths), 2, 2)) is None
    monkeypatch.setattr(decoded_images, "available_memory", lambda: 4 * (crops - 1))
    store = FeatureStore(pocket)
    check_same(
        make_views(2, PromptSRC, pocket, shots, 1, SILENT, store),
        make_views(2, PromptSRC, pocket, shots, 1, SILENT),
    )
    assert store.kept.get(("crops", tuple(paths), 2, 1)) is None
    assert store.kept.get(("features", tuple(paths), 2, 1)) is not None


def test_room_that_kept_crops_take_is_not_lost(
    pocket: Backbone, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    crops = 2 * len(paths) * 3 * pocket.preprocessing.crop**2
    store, shots = FeatureStore(pocket), seen(pocket, paths)
    for seed, free in ((1, 2 * crops), (2, crops // 2)):  # as the GPU says it
        monkeypatch.setattr(decoded_images, "available_memory", lambda free=free: 4 * free)
        make_views(2, MaPLe, pocket, shots, seed, SILENT, store)
    for seed in (1, 2):
        assert store.kept.get(("crops", tuple(paths), 2, seed)) is not None
