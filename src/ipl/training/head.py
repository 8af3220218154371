"""Fits the linear head of a prompt, which classifies the classes of its training."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.linear_probe import LinearProbe, draw_folds, fit_linear_probes
from ipl.learners.learner import Batch, Learner
from ipl.training.trainer import Trainer
from ipl.training.views import View

FOLDS = 2  # of the prompts whose logits the head is fitted with


class FittedHead(NamedTuple):
    """A head, and the probes that it had to beat."""

    head: LinearProbe
    probes: Sequence[LinearProbe]  # without an offset, and with zero-shot's logits


def fit_head(trainer: Trainer, learner: Learner) -> FittedHead:
    """Fit logistic regression on the training images, with the logits of texts as offset.

    The texts are the prompt's or those of zero-shot CLIP, whichever predicts held-out training
    images better. Zero-shot's logits are linear in the features (images, dim), so they become part
    of the weights. `PromptClassifier.logits_function` applies the head.
    """
    backbone, names, config = trainer.backbone, trainer.class_names, trainer.config
    features = learner.features_of(trainer.shots, trainer.store)
    texts = backbone.encode_texts([config.class_template.format(name) for name in names])
    offsets = [backbone.logits(features, texts), cross_fitted_logits(trainer, learner)]
    labels = trainer.shots.labels
    plain, named, head = fit_linear_probes(features, labels, len(names), config.seed, offsets)
    if named.loss < head.loss:
        weight = named.weight + named.alpha * backbone.logit_scale * normalize(texts, dim=-1)
        head = replace(named, weight=weight, alpha=0.0, names_alpha=named.alpha)
    return FittedHead(head, (plain, named))


def cross_fitted_logits(trainer: Trainer, learner: Learner) -> Tensor:
    """Logits (images, classes) of the training images, from prompts not trained on them.

    Those of the finished prompt would be too good: it has seen these images. The prompts of the
    folds have its words.
    """
    shots = trainer.shots
    folds = draw_folds(shots.labels, FOLDS, trainer.config.seed)
    logits = torch.empty(len(folds), len(trainer.class_names))
    for fold in range(FOLDS):
        rows = (folds != fold).nonzero().flatten()
        part = replace(
            trainer, shots=shots.rows(rows.tolist()), views=PartOfViews(trainer.views, rows)
        )
        trained = part.train(learner.layout.slots, learner.words, f"train-fold-{fold + 1}")
        others = shots.rows((folds == fold).nonzero().flatten().tolist())
        with torch.no_grad():
            features = trained.learner.features_of(others, trainer.store)
            logits[folds == fold] = trained.learner.logits(features).float().cpu()
    return logits


class PartOfViews(View):
    """The views of some of the images."""

    def __init__(self, views: View, rows: Tensor) -> None:
        self.views, self.images = views, rows

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        return self.views.batches((epoch, self.images[indices]) for epoch, indices in order)
