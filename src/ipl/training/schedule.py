"""The learning rate of each epoch."""

from __future__ import annotations

import math

WARM_UP_LR = 1e-5


def learning_rate(epoch: int, lr: float, total: int) -> float:
    """Returns the rate of an epoch (from 0): one epoch of warm-up, then a cosine to zero."""
    if epoch == 0:
        return WARM_UP_LR
    return lr * (1 + math.cos(math.pi * (epoch - 1) / total)) / 2
