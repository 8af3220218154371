"""The numbers a learner trains with unless told otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ipl.errors import ConfigError


@dataclass(frozen=True)
class Recipe:
    """T, t, batch size, learning rate and m, by their published values."""

    epochs: int  # T
    interval: int  # t, epochs of training after each word
    batch: int
    lr: float
    m: int  # soft vectors in a group

    def __post_init__(self) -> None:
        for field in ("epochs", "interval", "batch", "m"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} is {getattr(self, field)}; it must be 1 or more.")
        if not 0 < self.lr < float("inf"):
            raise ConfigError(f"lr is {self.lr}; it must be more than 0.")

    def override(self, **values: Any) -> Recipe:
        """Returns the recipe with every value that is not None put in."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})
