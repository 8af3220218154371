"""What an epoch has: its learning rate, and how many images it trains on."""

from __future__ import annotations

import math

WARM_UP_LR = 1e-5


def learning_rate(epoch: int, lr: float, total: int) -> float:
    """Returns the learning rate of an epoch: one epoch of warm-up, then a cosine to zero.

    Parameters
    ----------
    epoch : int
        The epoch, from 0.
    lr : float
        The learning rate after the warm-up.
    total : int
        The number of epochs.

    Returns
    -------
    float
        The learning rate of the epoch.
    """
    if epoch == 0:
        return WARM_UP_LR
    return lr * (1 + math.cos(math.pi * (epoch - 1) / total)) / 2


def images_per_epoch(images: int, batch: int) -> int:
    """Returns how many images an epoch trains on: an incomplete batch is dropped unless alone."""
    return images - images % batch or images
