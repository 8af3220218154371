"""The hyperparameters that a learner is trained with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ipl.support.errors import ConfigError

PROTOCOLS = ("base-to-novel", "cross-dataset")


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a training, with the letters of the paper.

    Parameters
    ----------
    epochs : int
        Epochs in all, T.
    interval : int
        Epochs of training after each word, t.
    batch : int
        Images in a step.
    lr : float
        The learning rate after the warm-up.
    m : int
        Soft vectors in a group.
    depth : int, default 1
        How many layers get vectors of their own; 1 is only the first.
    average_mean : float or None, default None
        The epoch around which the prompts of all epochs are averaged with Gaussian weights; None
        takes the prompt of the last epoch.
    average_std : float, default 1.0
        The standard deviation of these weights, in epochs.

    Raises
    ------
    ConfigError
        If a number is out of range.
    """

    epochs: int
    interval: int
    batch: int
    lr: float
    m: int
    depth: int = 1
    average_mean: float | None = None
    average_std: float = 1.0

    def __post_init__(self) -> None:
        for field in ("epochs", "interval", "batch", "m", "depth"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} is {getattr(self, field)}; it must be 1 or more.")
        if self.average_mean is not None and not abs(self.average_mean) < 1e6:
            raise ConfigError(
                f"average_mean is {self.average_mean}; it must be the number of an epoch."
            )
        if not 1e-3 <= self.average_std < float("inf"):
            raise ConfigError(f"average_std is {self.average_std}; it must be 0.001 or more.")
        if not 0 < self.lr < float("inf"):
            raise ConfigError(f"lr is {self.lr}; it must be more than 0.")

    def override(self, **values: Any) -> Hyperparameters:
        """A copy with other values; None leaves a value as it is."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})

    def word_epochs(self, k: int) -> tuple[int, ...]:
        """The epochs (from 0) before which k words enter: 0, t, 2t, ...

        Raises ConfigError if there are too few epochs for k words.
        """
        t, total = self.interval, self.epochs
        if k * t > total:
            raise ConfigError(
                f"words (k = {k}) times interval (t = {t}) is {k * t}, more than epochs "
                f"(T = {total}); k * t <= T is needed: {k * t} epochs or more, "
                f"{'a shorter interval, ' if t > 1 else ''}or fewer words."
            )
        return tuple(range(0, k * t, t))
