"""The head of a prompt: with the prompt's logits or zero-shot's, as held-out images say."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import one_hot

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.backbone.linear_probe import LinearProbe, fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset
from ipl.support.progress import SILENT
from ipl.training import head as head_module
from ipl.training.head import fit_head
from ipl.training.trainer import Trainer, new_learner
from ipl.training.views import View


def test_the_offset_is_what_predicts_held_out_images_best(
    pocket: Backbone, scenes: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, names = FitConfig(words=0), scenes.class_names
    shots = draw_shots(scenes, 3, 1, FeatureStore(pocket), SILENT)
    trainer = Trainer(config, pocket, names, shots, View())
    learner = new_learner(config, pocket, names, 0)
    right = 20 * one_hot(shots.labels, len(names)).float()

    def head_with(logits: torch.Tensor) -> LinearProbe:
        monkeypatch.setattr(head_module, "cross_fitted_logits", lambda *_: logits)
        return fit_head(trainer, learner).head

    head = head_with(right)
    assert (head.alpha, head.names_alpha) == (1.0, 0.0)

    head = head_with(right.roll(1, 1))
    zero_shot = zero_shot_logits(pocket, names, shots.features, config.class_template)
    probe = fit_linear_probe(shots.features, shots.labels, len(names), 1, zero_shot)
    assert (head.alpha, head.names_alpha) == (0.0, probe.alpha)
    assert probe.alpha > 0
    ours, expected = head.logits(shots.features, right), probe.logits(shots.features, zero_shot)
    torch.testing.assert_close(ours.softmax(1), expected.softmax(1), atol=1e-5, rtol=0)
