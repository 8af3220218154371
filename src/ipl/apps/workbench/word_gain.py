"""What a word of one's own would bring, at each step of a search."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ipl.backbone.backbone import Backbone
from ipl.backbone.shots import LabelledFeatures
from ipl.explain.loaded_run import SAME_LOSS
from ipl.support.errors import DataError, closest
from ipl.words.filters import is_one_token
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer, check_room
from ipl.words.template import Template

FILLED = 16  # candidates in a pass: fewer take other paths through a processor, to other last bits


@dataclass(frozen=True)
class StepGain:
    """What one word brings after others: gain = utility - lambda * redundancy."""

    word: str
    utility: float
    redundancy: float
    gain: float
    loss: float


@dataclass(frozen=True)
class WordGain:
    """A typed word after the first so many words, and the word that was chosen there, if any."""

    after: tuple[str, ...]
    typed: StepGain
    chosen: StepGain | None


@dataclass(frozen=True)
class GainInRun:
    """A typed word at each step; `same` tells whether on the images of the search itself."""

    steps: tuple[WordGain, ...]
    lambda_: float
    same: bool


class GainScorer:
    """Scores words on some images in the way of the search. One thread at a time."""

    def __init__(
        self,
        backbone: Backbone,
        names: Sequence[str],
        seen: LabelledFeatures,
        objective: Objective,
        template: Template,
    ) -> None:
        self.backbone, self.names, self.objective = backbone, tuple(names), objective
        self.scorer = CandidateScorer(backbone, names, seen.features, seen.labels, template)
        self.without_words = self.scorer.loss([])
        self._lock = threading.Lock()

    def saw(self, loss_without_words: float) -> bool:
        """Returns whether a search that began at this loss was one on these images."""
        return abs(self.without_words - loss_without_words) < SAME_LOSS

    def weigh(self, word: str, words: Sequence[str]) -> tuple[WordGain, ...]:
        """Returns what a word brings alone, after the first of `words`, ..., after all of them.

        A word that is one of them is looked at up to its own place.
        """
        with self._lock:
            check_room(self.scorer.template, self.backbone, self.names, len(words) + 1)
            places = words.index(word) if word in words else len(words)
            return tuple(self._at(word, words, place) for place in range(places + 1))

    def _at(self, word: str, words: Sequence[str], place: int) -> WordGain:
        before = tuple(words[:place])
        chosen = words[place] if place < len(words) else None
        loss = self._loss(before)
        return WordGain(
            before,
            self._bring(word, before, loss),
            None if chosen is None else self._bring(chosen, before, loss),
        )

    def _bring(self, word: str, before: Sequence[str], loss: float) -> StepGain:
        after = self._loss((*before, word))
        embeddings = self.objective.embed_words(self.backbone, [*before, word])
        redundancy = float(self.objective.redundancy(embeddings, range(len(before)))[-1])
        utility = loss - after
        gain = self.objective.gain(utility, redundancy)
        return StepGain(word, utility, redundancy, gain, after)

    def _loss(self, words: Sequence[str]) -> float:
        """Returns the loss of some words, of the last one as the search computes it."""
        if not words:
            return self.without_words
        return float(self.scorer.score(words[:-1], [words[-1]] * FILLED)[0])


def clean_word(raw: str | None, backbone: Backbone, pool: Pool) -> str:
    """Returns a typed word in lower case; raises DataError if no prompt can have it."""
    word = (raw or "").strip().lower()
    if not word:
        raise DataError("There is no word yet; type one.")
    if len(word.split()) > 1:
        raise DataError(f"{word[:40]!r} is more than one word; type one.")
    if not word.isalpha():
        raise DataError(f"{word[:40]!r} is not made of letters only; type one word.")
    if not is_one_token(word, backbone.tokenizer):
        raise DataError(
            f"{word[:40]!r} is cut into several pieces by the backbone's tokenizer; a word of a "
            f"prompt must be one.{closest(word, pool.words)}"
        )
    return word
