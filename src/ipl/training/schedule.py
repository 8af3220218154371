"""When words arrive and how fast vectors learn."""

from __future__ import annotations

import math

from ipl.support.errors import ConfigError

WARM_UP_LR = 1e-5


def word_epochs(k: int, t: int, total: int) -> tuple[int, ...]:
    """Returns the epoch (from 0) before which each of k words enters: 0, t, 2t, ..."""
    if k * t > total:
        raise ConfigError(
            f"words (k = {k}) times interval (t = {t}) is {k * t}, more than epochs (T = {total}); "
            f"k * t <= T is needed: {k * t} epochs or more, a shorter interval, or fewer words."
        )
    return tuple(range(0, k * t, t))


def learning_rate(epoch: int, lr: float, total: int) -> float:
    """Returns the rate of an epoch (from 0): one epoch of warm-up, then a cosine to zero."""
    if epoch == 0:
        return WARM_UP_LR
    return lr * (1 + math.cos(math.pi * (epoch - 1) / total)) / 2
