"""Half precision that overflows: training starts again in a wider one, and says so."""

from __future__ import annotations

import pytest
import torch

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone, load_wider
from ipl.datasets.dataset import Dataset
from ipl.learners.batch import Batch
from ipl.learners.coop import CoOp
from ipl.support.errors import NotFiniteError
from ipl.support.progress import Reporter

HOW = {"words": 0, "epochs": 2, "shots": 2, "views": 0, "cache": False}


@pytest.fixture
def overflowing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """CoOp's loss is no number in fp16; gives the precisions it was asked in."""
    asked: list[str] = []
    loss = CoOp.loss

    def breaks(self: CoOp, batch: Batch) -> torch.Tensor:
        asked.append(self.backbone.precision)
        broken = self.backbone.precision == "fp16"
        return loss(self, batch) * (float("inf") if broken else 1.0)

    monkeypatch.setattr(CoOp, "loss", breaks)
    return asked


@pytest.fixture(scope="module")
def small(scenes: Dataset) -> Dataset:
    return scenes.only([0, 4, 9], "three scenes")


def test_fp16_that_breaks_is_trained_again_in_fp32(small: Dataset, overflowing: list[str]) -> None:
    reporter = Reporter(quiet=True)
    ours = PromptClassifier("pocket", precision="fp16", reporter=reporter, **HOW).fit(small)
    assert overflowing == ["fp16", "fp32", "fp32"]
    (warning,) = reporter.warnings
    assert "inf in epoch 1, batch 1" in warning
    assert "Starting again in fp32" in warning
    wide = PromptClassifier("pocket", precision="fp32", **HOW).fit(small)
    assert torch.equal(ours.learner_.soft, wide.learner_.soft)
    assert ours.as_dict()["backbone"]["precision"] == "fp32"


def test_fp32_that_breaks_is_an_error(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoOp, "loss", lambda self, batch: self.soft.sum() * float("nan"))
    with pytest.raises(NotFiniteError, match="nan in epoch 1, batch 1; a smaller learning rate"):
        PromptClassifier("pocket", **HOW).fit(small)


def test_a_backbone_that_cannot_be_loaded_again_leaves_the_error(pocket: Backbone) -> None:
    half = load_backbone("pocket", "cpu", "fp16")
    for name, sha256 in (("nowhere", half.weights_sha256), ("pocket", "0" * 64)):
        half.name, half.weights_sha256 = name, sha256
        with pytest.raises(NotFiniteError, match="as it was"):
            load_wider(half, NotFiniteError("as it was"), Reporter(quiet=True))
