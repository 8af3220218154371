"""Views of the training images: none, a bank of them, fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.encode_images import encode_files
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Dataset, Item
from ipl.learners.coop import CoOp
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT
from ipl.training.views import BankedViews, View, make_views


@pytest.fixture(scope="module")
def paths(scenes: Dataset) -> list[Path]:
    return [item.path for item in scenes.train[:6]]


def seen(pocket: Backbone, paths: list[Path]) -> LabelledFeatures:
    items = tuple(Item(path, index % 3) for index, path in enumerate(paths))
    return LabelledFeatures(items, encode_files(pocket, paths).features, ())


def test_no_views_is_the_centre_crop_computed_once(
    pocket: Backbone, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shots = seen(pocket, paths)
    monkeypatch.setattr(ClipBackbone, "encode_image", None)  # any further look would fail
    views = make_views(0, CoOp, pocket, shots, 1, SILENT)
    batch = views.batch(3, torch.tensor([4, 0]))
    assert torch.equal(batch.features, shots.features[[4, 0]])
    assert batch.labels.tolist() == [shots.items[4].label, shots.items[0].label]
    assert batch.pixels is None


def test_a_bank_of_views(pocket: Backbone, paths: list[Path]) -> None:
    views = make_views(3, CoOp, pocket, seen(pocket, paths), 1, SILENT)
    assert isinstance(views, BankedViews)
    assert views.features.shape == (3, 6, 512)
    every = torch.arange(6)
    drawn = torch.stack([views.batch(epoch, every).features for epoch in range(20)])
    assert torch.equal(drawn[0], views.batch(0, every).features)
    assert all((row == views.features[:, 2]).all(-1).any() for row in drawn[:, 2])
    assert len(drawn[:, 2].unique(dim=0)) == 3  # all views of an image get their turn
    assert not torch.allclose(views.features[0], views.features[1], atol=1e-3)


def test_fresh_views_differ_by_epoch_and_repeat_by_seed(
    pocket: Backbone, paths: list[Path]
) -> None:
    shots, every = seen(pocket, paths), torch.tensor([5, 1])
    first, same, other = (make_views("fresh", CoOp, pocket, shots, s, SILENT) for s in (1, 1, 2))

    def features(views: View, epoch: int, indices: torch.Tensor = every) -> torch.Tensor:
        found = views.batch(epoch, indices).features
        assert found is not None
        return found

    assert torch.equal(features(first, 0), features(same, 0))
    assert not torch.allclose(features(first, 0), features(first, 1), atol=1e-3)
    assert not torch.allclose(features(first, 0), features(other, 0), atol=1e-3)
    # an image's crop does not depend on its company
    alone = features(first, 0, torch.tensor([1]))
    torch.testing.assert_close(alone, features(first, 0)[1:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("views", [-1, "stale", 1.5])
def test_what_is_no_view(pocket: Backbone, views: object) -> None:
    nothing = LabelledFeatures((), torch.zeros(0, 512), ())
    with pytest.raises(ConfigError, match="views is"):
        make_views(views, CoOp, pocket, nothing, 1, SILENT)  # type: ignore[arg-type]
