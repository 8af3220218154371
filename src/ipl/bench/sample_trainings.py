"""Trainings to measure: learners of a plan with generated images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.bench.work_counts import WorkPiece
from ipl.learners.learner import Learner
from ipl.support.progress import SILENT
from ipl.training.fit import new_learner
from ipl.training.loop import new_optimiser, training_threads
from ipl.training.step import (
    Recording,
    TrainingStep,
    clone_batch,
    copy_batch,
    make_step,
    training_stream,
)
from ipl.training.views import BankedViews, Pixels, from_bank


class SampleTrainings:
    """Makes trainings that cost what those of a plan do.

    Parameters
    ----------
    backbone : Backbone
        The backbone of the plan.
    names : mapping
        Class names of the plan, by their number.
    """

    def __init__(self, backbone: Backbone, names: Mapping[int, Sequence[str]]) -> None:
        self.backbone, self.names = backbone, names

    def step(self, piece: WorkPiece) -> tuple[Learner, Callable[[], Any]]:
        """Returns a learner, and a function that does a step of its training."""
        learner, views, optimiser = self._training(piece)
        indices = torch.arange(piece.images)
        with training_threads(learner):
            step = make_step(learner, optimiser, views.batch(0, indices), SILENT)
        return learner, lambda: step(views.batch(0, indices))

    def joined_step(self, piece: WorkPiece) -> tuple[Learner, Callable[[], Any]]:
        """Returns a learner, and a function that does a step of several such trainings as one."""
        learners, views, optimisers = zip(
            *(self._training(piece) for _ in range(piece.joined)), strict=True
        )
        steps = [TrainingStep(*pair) for pair in zip(learners, optimisers, strict=True)]
        indices = torch.arange(piece.images)
        batches = [clone_batch(each.batch(0, indices)) for each in views]
        with training_stream(self.backbone.device):
            recording = Recording(steps, batches)

        def step() -> None:
            for each, batch in zip(views, batches, strict=True):
                copy_batch(each.batch(0, indices), batch)
            torch.stack(recording.replay())

        return learners[0], step

    def _training(self, piece: WorkPiece) -> tuple[Learner, BankedViews, torch.optim.SGD]:
        """Returns a new learner, the images that it is trained on, and an optimiser."""
        assert piece.config is not None
        names = self.names[piece.classes]
        learner = new_learner(piece.config, self.backbone, names, int(piece.config.words))
        return learner, self._views(learner, piece.images), new_optimiser(learner, 1e-6)

    def _views(self, learner: Learner, images: int) -> BankedViews:
        """Returns a bank of one crop of each image, where training has it."""
        labels = torch.arange(images) % len(learner.prompts.class_names)
        features = self.features(images)[None] if learner.wants_features else None
        pixels: Pixels | None = None
        if learner.prompts_images:
            pixels = from_bank(self.pixels(images)[None].to(self.backbone.device))
        return BankedViews(self.backbone, labels, 1, features, pixels)

    def features(self, count: int, seed: int = 0) -> Tensor:
        """Returns normalised features (count, dim) in random directions."""
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(count, self.backbone.feature_dim, generator=generator)
        return normalize(features, dim=-1).to(self.backbone.device)

    def pixels(self, images: int) -> Tensor:
        """Returns random crops (images, height, width, 3) as bytes."""
        edge = self.backbone.preprocessing.crop
        generator = torch.Generator().manual_seed(0)
        shape = (images, edge, edge, 3)
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator)
