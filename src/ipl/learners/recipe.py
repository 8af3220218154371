"""The numbers a learner trains with unless told otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ipl.support.errors import ConfigError

PROTOCOLS = ("base-to-novel", "cross-dataset")


@dataclass(frozen=True)
class Recipe:
    """T, t, batch size, learning rate, m and more, by their published values."""

    epochs: int  # T
    interval: int  # t, epochs of training after each word
    batch: int
    lr: float
    m: int  # soft vectors in a group
    depth: int = 1  # layers that get vectors of their own; 1: only the first
    # Weights N(epoch; mean, std) of an average of the prompts over all epochs; None: the last.
    average_mean: float | None = None
    average_std: float = 1.0

    def __post_init__(self) -> None:
        for field in ("epochs", "interval", "batch", "m", "depth"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} is {getattr(self, field)}; it must be 1 or more.")
        if self.average_mean is not None and not abs(self.average_mean) < 1e6:
            raise ConfigError(f"average_mean is {self.average_mean}; it must be an epoch.")
        if not 1e-3 <= self.average_std < float("inf"):
            raise ConfigError(f"average_std is {self.average_std}; it must be 0.001 or more.")
        if not 0 < self.lr < float("inf"):
            raise ConfigError(f"lr is {self.lr}; it must be more than 0.")

    def override(self, **values: Any) -> Recipe:
        """Returns the recipe with every value that is not None put in."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})

    def word_epochs(self, k: int) -> tuple[int, ...]:
        """Returns the epoch (from 0) before which each of k words enters: 0, t, 2t, ..."""
        t, total = self.interval, self.epochs
        if k * t > total:
            raise ConfigError(
                f"words (k = {k}) times interval (t = {t}) is {k * t}, more than epochs "
                f"(T = {total}); k * t <= T is needed: {k * t} epochs or more, a shorter interval, "
                "or fewer words."
            )
        return tuple(range(0, k * t, t))
