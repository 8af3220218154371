"""What a training step sees."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Some training images; what the learner does not look at is None."""

    labels: Tensor  # (images,)
    features: Tensor | None = None  # (images, dim), of the frozen tower, normalised
    pixels: Tensor | None = None  # (images, 3, height, width), normalised
