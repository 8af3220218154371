"""What a person chooses before learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError
from ipl.training.fit import MOST_WORDS

BOUNDS = {"words": (0, MOST_WORDS), "shots": (1, 100), "epochs": (1, 500), "seed": (0, 2**32 - 1)}


@dataclass(frozen=True)
class WorkbenchSettings:
    """The learner, and the numbers it learns with."""

    learner: str = "coop"
    words: int = 2
    shots: int = 16
    epochs: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        learner_class(self.learner)
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(
                    f"{name} is {value!r}; it must be a whole number from {low} to {high}."
                )
        if self.words > self.epochs:
            raise ConfigError(
                f"epochs is {self.epochs}; {self.words} words need {self.words} epochs or more."
            )

    @classmethod
    def read(
        cls, learner: Any, words: Any, shots: Any, epochs: Any, seed: Any
    ) -> WorkbenchSettings:
        """Returns the settings that a form's fields mean."""
        numbers = (_whole(value) for value in (words, shots, epochs, seed))
        return cls(str(learner), *numbers)

    @property
    def interval(self) -> int:
        """Returns the learner's epochs after each word, fewer where there is no time for them."""
        published = learner_class(self.learner).recipe(self.words).interval
        return max(1, min(published, self.epochs // max(1, self.words)))


def usual_epochs(learner: str, words: int) -> int:
    """Returns the epochs that a learner was published with, within what is allowed here."""
    return min(BOUNDS["epochs"][1], learner_class(learner).recipe(words).epochs)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
