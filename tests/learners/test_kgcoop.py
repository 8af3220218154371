"""KgCoOp: CoOp's prompts, and a loss that holds them near a hand-made template."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cosine_similarity

from ipl.backbone.backbone import Backbone
from ipl.learners.kgcoop import KgCoOp
from ipl.learners.learner import Batch
from tests.helpers.learners import NAMES, make_learner
from tests.helpers.library_towers import library_features


def loss_by_hand(
    learner: KgCoOp, images: torch.Tensor, labels: torch.Tensor, template: str
) -> tuple[float, float]:
    """Returns the cross-entropy and 1 - mean cosine, in plain Python from unnormalised features."""
    backbone, texts = learner.backbone, library_features(learner).detach().double()
    taught = torch.cat([backbone.encode_texts([template.format(n)]) for n in NAMES]).double()
    entropy = 0.0
    for image, label in zip(images.double(), labels.tolist(), strict=True):
        scores = [backbone.logit_scale * cosine_similarity(image, t, dim=0).item() for t in texts]
        entropy += math.log(sum(math.exp(s - scores[label]) for s in scores)) / len(images)
    cosines = [cosine_similarity(a, b, dim=0).item() for a, b in zip(texts, taught, strict=True)]
    return entropy, 1 - sum(cosines) / len(cosines)


@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("template", ["a photo of a {}.", "a photo of a {}, a type of texture."])
def test_the_loss_by_hand(pocket: Backbone, batch: Batch, words: int, template: str) -> None:
    learner = make_learner(pocket, "kgcoop", words, class_template=template)
    with torch.no_grad():  # away from where the vectors start
        generator = torch.Generator().manual_seed(3)
        learner.soft.add_(0.1 * torch.randn(learner.soft.shape, generator=generator))
    entropy, distance = loss_by_hand(learner, batch.features, batch.labels, template)
    assert distance > 0.01
    assert learner.loss(batch).item() == pytest.approx(entropy + 8.0 * distance, abs=2e-4)
    assert set(learner.state_dict()) == {"soft"}  # the teacher is no part of it


def test_other_classes_have_their_own_teacher(pocket: Backbone) -> None:
    learner = make_learner(pocket, "kgcoop", class_template="{} texture.")
    other = learner.rebuilt(class_names=["dog", "cat"])
    torch.testing.assert_close(other.teacher[1], learner.teacher[0], atol=1e-6, rtol=0)
    assert not torch.allclose(other.teacher[0], learner.teacher[0], atol=1e-3)
