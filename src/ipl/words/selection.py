"""What the search did, step by step, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
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
    certified: bool = True  # no other word of the pool has a higher gain: proved, not guessed
    # Words scored exactly at this step and the one before, and those of them whose gain rose.
    compared: int = 0
    rising: int = 0
    # How far a loss in half precision was allowed to be off from fp32; 0: all of it was fp32.
    margin: float = 0.0
    recalled: bool | None = None  # whether a shortlist held the true winner, where that was asked


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
    search: str = "exhaustive"

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the chosen words in order."""
        return tuple(step.word for step in self.steps)

    @property
    def harmful(self) -> tuple[str, ...]:
        """Returns the words that raised the loss when they entered: k words are always taken."""
        return tuple(step.word for step in self.steps if step.utility < 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns a sentence on what a person should know about these words, if anything."""
        if not self.harmful:
            return ()
        return (f"More words do not lower the loss here: {', '.join(self.harmful)} raised it.",)

    @property
    def certified(self) -> bool:
        """Returns whether every step's word is proved to be the best of the pool."""
        return all(step.certified for step in self.steps)

    @property
    def recall(self) -> float | None:
        """Returns the share of steps whose shortlist held the true winner, if that was asked."""
        asked = [step.recalled for step in self.steps if step.recalled is not None]
        return sum(asked) / len(asked) if asked else None

    def first(self, k: int) -> Selection:
        """Returns the selection of the first k words: greedy choices do not depend on k."""
        return replace(self, steps=self.steps[:k])

    def diminishing_returns(self) -> dict[str, Any]:
        """Returns the gain of each step, their running sum, and how often a word's gain rose.

        With a submodular objective no gain would ever rise from one step to the next.
        """
        pairs = sum(step.compared for step in self.steps)
        rising = sum(step.rising for step in self.steps)
        return {
            "gains": [step.gain for step in self.steps],
            "objective": list(accumulate(step.gain for step in self.steps)),
            "pairs": pairs,
            "violations": rising,
            "share": rising / pairs if pairs else None,
        }

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        values = asdict(self)
        for step in values["steps"]:
            step["runners_up"] = [list(ranked) for ranked in step["runners_up"]]
        return {
            "words": list(self.words),
            **values,
            "certified": self.certified,
            "recall": self.recall,
            "diminishing_returns": self.diminishing_returns(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Selection:
        """Returns the selection that as_dict() wrote; what is derived or unknown is passed over."""
        steps = []
        for step in values["steps"]:
            ranked = tuple(RankedWord(*pair) for pair in step["runners_up"])
            steps.append(SelectionStep(**{**_own(SelectionStep, step), "runners_up": ranked}))
        return cls(**{**_own(cls, values), "steps": tuple(steps)})


def _own(kind: type[Selection | SelectionStep], values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}
