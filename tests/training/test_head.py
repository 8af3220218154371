"""The head of a prompt: with the prompt's logits or zero-shot's, as held-out images say."""

from __future__ import annotations

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, draw_shots
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset
from ipl.support.progress import SILENT
from ipl.training.fit import new_learner
from ipl.training.head import fit_head

TEMPLATE = "a photo of a {}."


def test_the_offset_is_what_predicts_held_out_images_best(
    pocket: Backbone, scenes: Dataset
) -> None:
    shots: LabelledFeatures = draw_shots(scenes, 3, 1, FeatureStore(pocket), SILENT)
    features, labels, names = shots.features, shots.labels, scenes.class_names
    learner = new_learner(FitConfig(words=0), pocket, names, 0)
    right = 20 * torch.nn.functional.one_hot(labels, len(names)).float()

    head = fit_head(learner, features, labels, right, TEMPLATE, 1)
    assert (head.alpha, head.names_alpha) == (1.0, 0.0)

    head = fit_head(learner, features, labels, right.roll(1, 1), TEMPLATE, 1)
    zero_shot = zero_shot_logits(pocket, names, features, TEMPLATE)
    probe = fit_linear_probe(features, labels, len(names), 1, zero_shot)
    assert (head.alpha, head.names_alpha) == (0.0, probe.alpha)
    assert probe.alpha > 0
    ours, expected = head.logits(features, right), probe.logits(features, zero_shot)
    torch.testing.assert_close(ours.softmax(1), expected.softmax(1), atol=1e-5, rtol=0)
