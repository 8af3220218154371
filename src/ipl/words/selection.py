"""Selection: the chosen words with the numbers of each step, and how they are displayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text

from ipl.display.formatting import listed, percent, signed
from ipl.display.page import notebook_html
from ipl.display.table import Styled, Table
from ipl.support.plain_values import Share

STABLE = 0.5  # of the resamples that a word must win to be told from the next best


class RankedWord(NamedTuple):
    """A word and its gain at one step."""

    word: str
    gain: float


@dataclass(frozen=True)
class Certainty:
    """The share of resamples that a word wins; the held-out gain and its 90 % interval.

    The held-out gain is that of the word which is best on one half of the images, on the other
    half, averaged over both.
    """

    wins: Share
    held_out_gain: float
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
    accuracy : float
        The share of the images that the sentence with the words up to this one classifies.
    runners_up : tuple of RankedWord
        The next best words of the step.
    checked : int
        How many words were scored in fp32.
    seconds : float
        How long the step took.
    margin : float
        How far the losses of the other words, in half precision, were allowed to be off: four
        times the largest difference seen between the two precisions. 0 if all words were scored in
        fp32.
    certainty : Certainty
        How often the word is the best of the twenty when the images are drawn anew, and the
        held-out gain.
    """

    word: str
    utility: float
    redundancy: float
    gain: float
    loss: float
    accuracy: Share
    runners_up: tuple[RankedWord, ...]
    checked: int
    seconds: float
    margin: float
    certainty: Certainty

    @property
    def earns_its_place(self) -> bool:
        """Whether the 90 % interval of the held-out gain lies above 0."""
        return self.certainty.low > 0 and self.gain > 0

    @property
    def how_sure(self) -> str:
        """A sentence on how sure the word is."""
        sure = self.certainty
        share = f"{round(100 * sure.wins)} of 100 resamples"
        if not self.runners_up:
            sentence = f"{self.word!r} was the only word left"
        elif sure.wins >= STABLE:
            sentence = f"{self.word!r} wins {share}"
        else:
            sentence = (
                f"{self.word!r} wins only {share}: it is not distinguishable from the next best"
            )
        doubt = "" if self.earns_its_place else ", which may as well be 0"
        if sure.high < 0:
            doubt = ", which is below 0"
        interval = f"from {signed(sure.low)} to {signed(sure.high)}{doubt}"
        return f"{sentence} (held-out gain {signed(sure.held_out_gain)}, {interval})."


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
    utility : str
        "paper" or "calibrated".
    accuracy_without_words : float
        The share of the images that the prompt without words classifies.
    search : str
        "exact" or "exhaustive".
    stopped_before : SelectionStep or None, default None
        The next word, if the search stopped because it does not earn its place.
    """

    steps: tuple[SelectionStep, ...]
    loss_without_words: float
    template: str
    lambda_: float
    preset: str
    word_embedding: str
    pool_size: int
    pool_sha256: str
    utility: str
    accuracy_without_words: Share
    search: str
    stopped_before: SelectionStep | None = None

    def __repr__(self) -> str:
        return f"Selection(words={self.words}, search={self.search!r})"

    def _repr_html_(self) -> str:
        sentences = [*certainty_sentences(self), *self.notes]
        return notebook_html("How the words were chosen", [words_table(self), *sentences])

    @property
    def words(self) -> tuple[str, ...]:
        """The chosen words in order."""
        return tuple(step.word for step in self.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the words."""
        notes = []
        # A search for k words takes k, whatever they gain.
        harmful = [repr(step.word) for step in self.steps if step.gain < 0]
        if harmful:
            verb = "has" if len(harmful) == 1 else "have"
            notes.append(
                f"{', '.join(harmful)} {verb} a negative gain: more words do not help here."
            )
        for step in self.steps:
            if step.utility < 0 <= step.gain:
                notes.append(
                    f"{step.word!r} raises the loss; it has a gain because it is unlike the words "
                    f"before it (redundancy {step.redundancy:.4f})."
                )
        if (stopped := self.stopped_before) is not None and not self.steps:
            notes.append(
                f"No word earned its place: on images that did not choose it, the best, "
                f"{stopped.word!r}, gains nothing that may not be chance. The prompt has no words."
            )
        return tuple(notes)

    @property
    def how_checked(self) -> str:
        """A sentence on how many words were scored in fp32."""
        margin = max((step.margin for step in self.steps), default=0.0)
        if not margin:
            return f"All {self.pool_size:,} words scored in fp32."
        counts = [f"{step.checked:,}" for step in self.steps]
        best = f"{listed(counts if len(set(counts)) > 1 else counts[:1])} of {self.pool_size:,}"
        return f"Checked: the best {best} scored in fp32, margin {margin:.2g}."

    @property
    def about_gain(self) -> str:
        """A sentence on what a gain is."""
        scale = "the best scale of each word" if self.utility == "calibrated" else "CLIP's scale"
        penalty = f" - {self.lambda_:g} * redundancy" if self.lambda_ else ""
        return (
            f"gain = utility{penalty}; utility is the fall of the cross-entropy on the training "
            f"images, at {scale}; accuracy is that of the sentence on them."
        )

    def first(self, k: int) -> Selection:
        """The selection of the first k words, which does not depend on the later ones."""
        if k >= len(self.steps):
            return self
        return replace(self, steps=self.steps[:k], stopped_before=None)

    def as_dict(self) -> dict[str, Any]:
        """The selection as plain values for JSON."""
        return {"words": self.words, **asdict(self), "how_checked": self.how_checked}


def words_table(selection: Selection) -> Table:
    """The words with gain, held-out gain, accuracy and loss, and the next best words."""
    numbers = ["gain", "held-out gain", "90 % interval", "wins", "accuracy", "loss after"]
    rows = []
    for step in selection.steps:
        sure = step.certainty
        own = [signed(step.gain), signed(sure.held_out_gain)]
        own += [f"{signed(sure.low)} to {signed(sure.high)}", f"{100 * sure.wins:.0f} %"]
        own += [percent(step.accuracy), f"{step.loss:.4f}"]
        others = ", ".join(ranked.word for ranked in step.runners_up[:3])
        rows.append([Styled(step.word, "bold"), *own, others])
    before = [percent(selection.accuracy_without_words), f"{selection.loss_without_words:.4f}"]
    none = [Styled("(none)", "bold"), "", "", "", "", *before, ""]
    return Table(["word", *numbers, "next best"], [none, *rows], numbers=numbers)


def selection_report(selection: Selection) -> Group:
    """The table of the words, and sentences on how they were compared and how sure."""
    sure = certainty_sentences(selection)
    if not selection.steps:
        return Group(Text("\n".join(sure) or "The number of words is 0."))
    seconds = sum(step.seconds for step in selection.steps)
    lines = [f"{selection.how_checked} It took {seconds:.1f} s.", selection.about_gain, *sure]
    return Group(words_table(selection).to_terminal(), Text(""), Text("\n".join(lines)))


def certainty_sentences(selection: Selection) -> list[str]:
    """A sentence on how sure each word is, and one on why the search stopped, if it did."""
    lines = [step.how_sure for step in selection.steps]
    if (stopped := selection.stopped_before) is not None:
        lines.append(f"The search stopped before {stopped.word!r}: {stopped.how_sure}")
    return lines
