"""Selection: the chosen words with the numbers of each step, and how they are displayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text

from ipl.display.formatting import listed
from ipl.display.page import notebook_html
from ipl.display.table import Styled, Table
from ipl.support.plain_values import Share

STABLE = 0.5  # of the resamples that a word must win to be told from the next best


class RankedWord(NamedTuple):
    """A word and its gain at one step."""

    word: str
    gain: float


class Certainty(NamedTuple):
    """The share of resamples that a word wins, and the 90 % interval of its gain."""

    wins: Share
    low: float
    high: float


@dataclass(frozen=True)
class SelectionStep:
    """One step of the search: a word, its gain and the next best words.

    Parameters
    ----------
    word : str
        The word.
    utility : float
        The fall of the cross-entropy when the word joined the words before it.
    redundancy : float
        The similarity of the word to the words before it.
    gain : float
        utility - lambda * redundancy.
    loss : float
        The cross-entropy with the words up to this one.
    runners_up : tuple of RankedWord
        The next best words of the step.
    checked : int
        How many words were scored in fp32.
    seconds : float
        How long the step took.
    margin : float, default 0.0
        How far the losses of the other words, in half precision, were allowed to be off: four
        times the largest difference seen between the two precisions. 0 if all words were scored in
        fp32.
    certainty : Certainty or None, default None
        How often the word is the best of the twenty when the images are drawn anew, and the 90 %
        interval of its gain; None if that was not measured.
    """

    word: str
    utility: float
    redundancy: float
    gain: float
    loss: float
    runners_up: tuple[RankedWord, ...]
    checked: int
    seconds: float
    margin: float = 0.0
    certainty: Certainty | None = None

    @property
    def earns_its_place(self) -> bool:
        """Returns whether the 90 % interval of the gain lies above 0."""
        return self.certainty is not None and self.certainty.low > 0

    @property
    def how_sure(self) -> str:
        """Returns a sentence on how sure the word is; empty if that was not measured."""
        if self.certainty is None:
            return ""
        wins, low, high = self.certainty
        others = len(self.runners_up)
        share = f"{round(100 * wins)} of 100 resamples"
        if not others:
            sentence = f"{self.word!r} was the only word left"
        elif wins >= STABLE:
            sentence = f"{self.word!r} wins {share}"
        else:
            nearest = "next best word" if others == 1 else f"next {others}"
            sentence = (
                f"{self.word!r} wins only {share}: it is not distinguishable from the {nearest}"
            )
        gain = f"gain {self.gain:+.4f}, from {low:+.4f} to {high:+.4f}"
        doubt = "" if self.earns_its_place else ", which may as well be 0"
        if high < 0:
            doubt = ", which is below 0"
        return f"{sentence} ({gain}{doubt})."


@dataclass(frozen=True)
class Selection:
    """The chosen words in order, and how they were chosen.

    Parameters
    ----------
    steps : tuple of SelectionStep
        A step for each word.
    loss_without_words : float
        The cross-entropy of the prompt without words.
    template : str
        The sentence that scored the words.
    lambda_ : float
        The weight of redundancy.
    preset : str
        How redundancy was computed: "paper" or "reference".
    word_embedding : str
        What redundancy compared: "text" or "token".
    pool_size : int
        The number of words in the pool.
    pool_sha256 : str
        The hash of the pool.
    search : str, default "exhaustive"
        "exact" or "exhaustive".
    stopped_before : SelectionStep or None, default None
        The next word, if the search stopped because the interval of its gain includes 0.
    """

    steps: tuple[SelectionStep, ...]
    loss_without_words: float
    template: str
    lambda_: float
    preset: str
    word_embedding: str
    pool_size: int
    pool_sha256: str
    search: str = "exhaustive"
    stopped_before: SelectionStep | None = None

    def __repr__(self) -> str:
        return f"Selection(words={self.words}, search={self.search!r})"

    def _repr_html_(self) -> str:
        sentences = [*certainty_sentences(self), *self.notes]
        return notebook_html("How the words were chosen", [words_table(self), *sentences])

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the chosen words in order."""
        return tuple(step.word for step in self.steps)

    @property
    def harmful(self) -> tuple[str, ...]:
        """Returns the words with a negative gain; a search for k words takes them all the same."""
        return tuple(step.word for step in self.steps if step.gain < 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns warnings about the words."""
        notes = []
        if self.harmful:
            words = ", ".join(f"{word!r}" for word in self.harmful)
            verb = "has" if len(self.harmful) == 1 else "have"
            notes.append(f"{words} {verb} a negative gain: more words do not help here.")
        for step in self.steps:
            if step.utility < 0 <= step.gain:
                notes.append(
                    f"{step.word!r} raises the loss; it has a gain because it is unlike the words "
                    f"before it (redundancy {step.redundancy:.4f})."
                )
        if (stopped := self.stopped_before) is not None and not self.steps:
            notes.append(
                f"No word earned its place: the best, {stopped.word!r}, has a gain that may as "
                "well be 0. The prompt has no words."
            )
        return tuple(notes)

    @property
    def how_checked(self) -> str:
        """Returns a sentence on how many words were scored in fp32."""
        margin = max((step.margin for step in self.steps), default=0.0)
        if not margin:
            return f"All {self.pool_size:,} words scored in fp32."
        counts = [f"{step.checked:,}" for step in self.steps]
        best = f"{listed(counts if len(set(counts)) > 1 else counts[:1])} of {self.pool_size:,}"
        return f"Checked: the best {best} scored in fp32, margin {margin:.2g}."

    def first(self, k: int) -> Selection:
        """Returns the selection of the first k words, which does not depend on the later ones.

        Parameters
        ----------
        k : int
            The number of words.

        Returns
        -------
        Selection
            The shorter selection.
        """
        if k >= len(self.steps):
            return self
        return replace(self, steps=self.steps[:k], stopped_before=None)

    def as_dict(self) -> dict[str, Any]:
        """Returns the selection as plain values for JSON."""
        values = asdict(self)
        values["steps"] = [_step_values(step) for step in self.steps]
        stopped = self.stopped_before
        values["stopped_before"] = None if stopped is None else _step_values(stopped)
        return {
            "words": list(self.words),
            **values,
            "how_checked": self.how_checked,
        }


def _step_values(step: SelectionStep) -> dict[str, Any]:
    """Returns a step as plain values."""
    values = asdict(step)
    values["runners_up"] = [list(ranked) for ranked in step.runners_up]
    values["certainty"] = None if step.certainty is None else step.certainty._asdict()
    return values


def words_table(selection: Selection) -> Table:
    """Returns a table of the words with gain and its interval, loss and the next best words."""
    numbers = ["gain", "90 % interval", "wins", "redundancy", "loss after"]
    without = f"{selection.loss_without_words:.4f}"
    rows: list[list[str]] = [[Styled("(none)", "bold"), "", "", "", "", without, ""]]
    for step in selection.steps:
        interval = wins = ""
        if step.certainty is not None:
            interval = f"{step.certainty.low:+.4f} to {step.certainty.high:+.4f}"
            wins = f"{100 * step.certainty.wins:.0f} %"
        rows.append(
            [
                Styled(step.word, "bold"),
                f"{step.gain:+.4f}",
                interval,
                wins,
                f"{step.redundancy:.4f}",
                f"{step.loss:.4f}",
                ", ".join(ranked.word for ranked in step.runners_up[:3]),
            ]
        )
    return Table(["word", *numbers, "next best"], rows, numbers=numbers)


def selection_report(selection: Selection) -> Group:
    """Returns the table of the words, and sentences on how they were compared and how sure."""
    seconds = sum(step.seconds for step in selection.steps)
    lines = [
        f"{selection.how_checked} It took {seconds:.1f} s.",
        f"gain = utility - {selection.lambda_:g} * redundancy",
    ]
    sure = certainty_sentences(selection)
    if not selection.steps:
        return Group(Text("\n".join(sure) or "The number of words is 0."))
    lines += sure
    return Group(words_table(selection).to_terminal(), Text(""), Text("\n".join(lines)))


def certainty_sentences(selection: Selection) -> list[str]:
    """Returns a sentence on how sure each word is, and one on why the search stopped, if it did."""
    lines = [step.how_sure for step in selection.steps if step.how_sure]
    if (stopped := selection.stopped_before) is not None:
        lines.append(f"The search stopped before {stopped.word!r}: {stopped.how_sure}".strip())
    return lines
