"""Selections: the chosen words with what each step of the search brought, and their report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text

from ipl.display.table import Styled, Table


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


def words_table(selection: Selection) -> Table:
    """Returns the words in order with gain, utility, redundancy, loss and the next best words."""
    numbers = ["gain", "utility", "redundancy", "loss after"]
    rows: list[list[str]] = [
        [Styled("(none)", "bold"), "", "", "", f"{selection.loss_without_words:.4f}", ""]
    ]
    for step in selection.steps:
        rows.append(
            [
                Styled(step.word, "bold"),
                f"{step.gain:+.4f}",
                f"{step.utility:+.4f}",
                f"{step.redundancy:.4f}",
                f"{step.loss:.4f}",
                ", ".join(ranked.word for ranked in step.runners_up[:3]),
            ]
        )
    return Table(["word", *numbers, "next best"], rows, numbers=numbers)


def selection_report(selection: Selection) -> Group:
    """Returns the words with their gains, what was proved, and how returns diminished."""
    lines = [_proof(selection), f"gain = utility - {selection.lambda_:g} * redundancy"]
    curve = selection.diminishing_returns()
    # Of words that were picked out to be scored, a share would say nothing about the pool.
    if curve["pairs"] and selection.search == "exhaustive":
        lines.append(
            f"A word's gain rose from one step to the next in {100 * curve['share']:.1f} % of "
            f"{curve['pairs']:,} cases; with a submodular objective it never would."
        )
    if selection.recall is not None:
        recalled = [step.word for step in selection.steps if step.recalled]
        lines.append(
            f"The shortlist held the true winner at {len(recalled)} of {len(selection.steps)} steps"
            + (f" ({', '.join(recalled)})." if recalled else ".")
        )
    if not selection.steps:
        return Group(Text("No words were asked for."))
    return Group(words_table(selection).to_terminal(), Text(""), Text("\n".join(lines)))


def _proof(selection: Selection) -> str:
    scored = ", ".join(f"{step.scored:,}" for step in selection.steps)
    seconds = sum(step.seconds for step in selection.steps)
    work = f"the loss of {scored} of {selection.pool_size:,} words was computed, {seconds:.1f} s"
    if not selection.certified:
        return f"Approximate ({selection.search}): {work}. Another word may be better."
    return f"Proved ({selection.search}): no other word has a higher gain at its step; {work}."
