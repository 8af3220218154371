"""The gain that a word of one's own would have at each step of a search."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.support.errors import DataError, closest
from ipl.training.trained_images import SAME_LOSS
from ipl.words.filters import is_one_token
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room
from ipl.words.template import Template

# Candidates in a pass of the scorer: smaller passes take other paths through a processor, and the
# last bits differ.
PASS_SIZE = 16


@dataclass(frozen=True)
class StepGain:
    """The gain of one word after others: utility - lambda * redundancy."""

    word: str
    utility: float
    redundancy: float
    gain: float
    loss: float


@dataclass(frozen=True)
class WordGain:
    """A typed word after the first words of a prompt, and the word that was selected there."""

    after: tuple[str, ...]
    typed: StepGain
    selected: StepGain | None  # None after the last word


@dataclass(frozen=True)
class GainInRun:
    """A typed word at each step of a search."""

    steps: tuple[WordGain, ...]
    lambda_: float
    same_images: bool  # as those of the search


class GainScorer:
    """Scores words on images as the search does. Threads take turns."""

    def __init__(
        self,
        backbone: Backbone,
        names: Sequence[str],
        images: LabelledFeatures,
        objective: Objective,
        template: Template,
    ) -> None:
        self.backbone, self.names, self.objective = backbone, tuple(names), objective
        self.scorer = SentenceScorer(backbone, names, images.features, images.labels, template)
        self.without_words = self.scorer.loss([])
        self._lock = threading.Lock()

    def matches_search(self, loss_without_words: float) -> bool:
        """Returns whether a search that started with this loss was on the same images."""
        return abs(self.without_words - loss_without_words) < SAME_LOSS

    def score(self, word: str, words: Sequence[str]) -> tuple[WordGain, ...]:
        """Returns the gains of a word alone, after the first of `words`, ..., after all of them.

        For a word that is one of `words` they end at its own position.
        """
        with self._lock:
            check_room(self.scorer.template, self.backbone, self.names, len(words) + 1)
            last = words.index(word) if word in words else len(words)
            return tuple(self._word_gain(word, words, position) for position in range(last + 1))

    def _word_gain(self, word: str, words: Sequence[str], position: int) -> WordGain:
        before = tuple(words[:position])
        loss = self._loss(before)
        selected = words[position] if position < len(words) else None
        return WordGain(
            before,
            self._step_gain(word, before, loss),
            None if selected is None else self._step_gain(selected, before, loss),
        )

    def _step_gain(self, word: str, before: Sequence[str], loss: float) -> StepGain:
        after = self._loss((*before, word))
        embeddings = self.objective.embed_words(self.backbone, [*before, word])
        redundancy = float(self.objective.redundancy(embeddings, range(len(before)))[-1])
        utility = loss - after
        gain = self.objective.gain(utility, redundancy)
        return StepGain(word, utility, redundancy, gain, after)

    def _loss(self, words: Sequence[str]) -> float:
        """Returns the loss with these words, scored in the same way as by the search."""
        if not words:
            return self.without_words
        return float(self.scorer.score(words[:-1], [words[-1]] * PASS_SIZE)[0])


def clean_word(text: str | None, backbone: Backbone, pool: Pool) -> str:
    """Returns a typed word in lower case; raises DataError if it cannot be a word of a prompt."""
    word = (text or "").strip().lower()
    if not word:
        raise DataError("No word is given; type one.")
    if len(word.split()) > 1:
        raise DataError(f"{word[:40]!r} is more than one word; type a single one.")
    if not word.isalpha():
        raise DataError(f"{word[:40]!r} has characters other than letters; type a single word.")
    if not is_one_token(word, backbone.tokenizer):
        raise DataError(
            f"{word[:40]!r} is more than one token for the backbone; a word of a prompt must be "
            f"a single token.{closest(word, pool.words)}"
        )
    return word
