"""How long a training is, its learning rate, and how many of the images it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ipl.config import FitConfig

WARM_UP_LR = 1e-5
ENOUGH = 64  # images of a class; more make no more steps, and no more crops
SEARCHED = 32  # images of a class that words are chosen with, at most


def limit_effort(config: FitConfig, counts: Sequence[int]) -> FitConfig:
    """A config with fewer epochs and views if classes have more than 64 training images.

    A training then has about as many steps and crops as with 64 images of each class. `counts` are
    the training images of each class. Epochs that were given stay.
    """
    images, enough = sum(counts), sum(min(count, ENOUGH) for count in counts)
    if images == enough:
        return config
    limited, published = config, config.hyperparameters
    if config.epochs is None:
        steps, most = (steps_per_epoch(count, published.batch) for count in (images, enough))
        words = config.words if isinstance(config.words, int) else 1
        epochs = max(1, words, published.epochs * most // steps)
        interval = config.interval or max(1, published.interval * epochs // published.epochs)
        epochs = max(epochs, words * interval)
        limited = replace(limited, epochs=epochs, interval=interval)
    if isinstance(config.views, int) and config.views:
        limited = replace(limited, views=max(1, config.views * enough // images))
    return limited


def learning_rate(epoch: int, lr: float, total: int) -> float:
    """The learning rate of an epoch (from 0): one epoch of warm-up, then a cosine to zero."""
    if epoch == 0:
        return WARM_UP_LR
    return lr * (1 + math.cos(math.pi * (epoch - 1) / total)) / 2


def images_per_epoch(images: int, batch: int) -> int:
    """How many images an epoch trains on: an incomplete batch is dropped unless it is alone."""
    return images - images % batch or images


def steps_per_epoch(images: int, batch: int) -> int:
    return max(1, images // batch)
