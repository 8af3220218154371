"""What the search did, step by step, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class RankedWord(NamedTuple):
    """A word and its gain at one step."""

    word: str
    gain: float


@dataclass(frozen=True)
class SelectionStep:
    """One word: gain = utility - lambda * redundancy, all as increments of this step."""

    word: str
    utility: float
    redundancy: float
    gain: float
    loss: float  # cross-entropy with the words up to this one
    runners_up: tuple[RankedWord, ...]
    scored: int  # words scored exactly
    seconds: float


@dataclass(frozen=True)
class Selection:
    """The chosen words in order, and how they were found."""

    steps: tuple[SelectionStep, ...]
    loss_without_words: float
    template: str
    lambda_: float
    preset: str
    word_embedding: str
    pool_size: int
    pool_sha256: str

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the chosen words in order."""
        return tuple(step.word for step in self.steps)

    @property
    def harmful(self) -> tuple[str, ...]:
        """Returns the words that raised the loss when they entered: k words are always taken."""
        return tuple(step.word for step in self.steps if step.utility < 0)

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        values = asdict(self)
        for step in values["steps"]:
            step["runners_up"] = [list(ranked) for ranked in step["runners_up"]]
        return {"words": list(self.words), **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Selection:
        """Returns the selection that as_dict() wrote."""
        rest = {key: value for key, value in values.items() if key != "words"}
        steps = tuple(
            SelectionStep(
                **{**step, "runners_up": tuple(RankedWord(*pair) for pair in step["runners_up"])}
            )
            for step in rest.pop("steps")
        )
        return cls(steps=steps, **rest)
