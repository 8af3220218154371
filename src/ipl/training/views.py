"""What training sees of each image: its centre crop, a bank of random crops, or fresh ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ipl.backbone import Backbone, encode_files
from ipl.errors import ConfigError, TrainingError
from ipl.progress import Reporter


class View(Protocol):
    """Image features of a batch, for the frozen image side."""

    def batch(self, epoch: int, indices: Tensor) -> Tensor:
        """Returns normalised features (indices, dim)."""
        ...


class CachedViews:
    """Features computed once: (views, images, dim); an epoch takes one view of each image."""

    def __init__(self, features: Tensor, seed: int) -> None:
        self.features = features
        self.seed = seed

    def batch(self, epoch: int, indices: Tensor) -> Tensor:
        """Returns features of one view each, drawn anew in every epoch."""
        views, images, _ = self.features.shape
        if views == 1:
            return self.features[0, indices]
        generator = torch.Generator().manual_seed(self.seed * 100_003 + epoch)
        drawn = torch.randint(views, (images,), generator=generator).to(indices.device)
        return self.features[drawn[indices], indices]


class FreshViews:
    """A new random crop of each image in every epoch, through the image tower each time."""

    def __init__(self, backbone: Backbone, paths: Sequence[Path], seed: int) -> None:
        self.backbone, self.paths, self.seed = backbone, paths, seed

    def batch(self, epoch: int, indices: Tensor) -> Tensor:
        """Returns features of crops that depend on seed, epoch and image alone."""
        chosen = indices.tolist()
        seen = encode_files(
            self.backbone,
            [self.paths[i] for i in chosen],
            augment=lambda n: random.Random(f"{self.seed}/{epoch}/{chosen[n]}"),
        )
        if seen.unreadable:
            raise TrainingError(f"An image became unreadable during training: {seen.unreadable[0]}")
        return seen.features


def make_views(
    views: int | str,
    backbone: Backbone,
    paths: Sequence[Path],
    centre: Tensor,  # (images, dim), features of the evaluation transform
    seed: int,
    reporter: Reporter,
) -> View:
    """Returns what training sees: 0 the centre crop, n a bank of n crops, or "fresh" crops."""
    if views == "fresh":
        return FreshViews(backbone, paths, seed)
    if not isinstance(views, int) or views < 0:
        raise ConfigError(f"views is {views!r}; allowed are 0, a number of crops, or 'fresh'.")
    if views == 0:
        return CachedViews(centre[None], seed)
    bank = []
    with reporter.task("Drawing crops", views * len(paths)) as advance:
        for view in range(views):
            seen = encode_files(
                backbone,
                paths,
                advance,
                augment=lambda n, view=view: random.Random(f"{seed}/{view}/{n}"),  # type: ignore[misc]
            )
            bank.append(seen.features)
    return CachedViews(torch.stack(bank), seed)
