"""Gains of sequences of words, and the searches among them: greedy, beam, and every pair.

The scoring sentence is a sequence, so the order of its words matters. The gain of a sequence is the
sum of the gains of its words, each after the words before it, as greedy search counts them. All
losses are computed in full; no word is ruled out by a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ipl.words.objective import Objective
from ipl.words.scorer import SentenceScorer

Array = np.ndarray[Any, Any]
Words = tuple[int, ...]  # indices of words of the pool, in the order of the sentence


class SentenceGains:
    """Utility, redundancy and gain of sequences of words, each computed once.

    Parameters
    ----------
    scorer : SentenceScorer
        Computes the losses.
    words : sequence of str
        The pool; sequences are tuples of its indices.
    objective : Objective
        The gain.
    embeddings : Tensor of shape (words, dim)
        What redundancy compares.
    """

    def __init__(
        self,
        scorer: SentenceScorer,
        words: Sequence[str],
        objective: Objective,
        embeddings: Tensor,
    ) -> None:
        self.scorer, self.words = scorer, tuple(words)
        self.objective, self.embeddings = objective, embeddings
        self.loss_without_words = scorer.loss([])
        self._after: dict[Words, tuple[Array, Array]] = {}  # utility and redundancy, (words,) each

    def compute(self, start: Words, following: Iterable[int] | None = None) -> None:
        """Scores `start` with each following word, all of the pool by default."""
        if start not in self._after:
            step = self.objective.redundancy(self.embeddings, start).cpu().double().numpy()
            unknown = np.full(len(self.words), np.nan)
            self._after[start] = unknown, self.redundancy(start) + step
        utility, _ = self._after[start]
        wanted = range(len(self.words)) if following is None else following
        new = [word for word in wanted if word not in start and np.isnan(utility[word])]
        if new:
            before, candidates = ([self.words[word] for word in part] for part in (start, new))
            losses = self.scorer.score(before, candidates).cpu().numpy()
            utility[new] = self.loss_without_words - losses

    def utility(self, words: Words) -> float:
        """Returns the fall of the loss; it must have been computed, as what follows."""
        return float(self._after[words[:-1]][0][words[-1]]) if words else 0.0

    def redundancy(self, words: Words) -> float:
        """Returns the redundancy of each word with those before it, summed."""
        return float(self._after[words[:-1]][1][words[-1]]) if words else 0.0

    def gain(self, words: Words) -> float:
        """Returns the gain."""
        return self.objective.gain(self.utility(words), self.redundancy(words))

    def gains_after(self, start: Words) -> Array:
        """Returns the gain of `start` with each word (words,), NaN where it was not computed."""
        return self.objective.gain(*self._after[start])


def beam_search(gains: SentenceGains, k: int, width: int) -> tuple[Words, ...]:
    """Returns the best sequences of 1, 2, ..., k words that a beam finds.

    Of sequences with the same words only the best stays in the beam. Width 1 is greedy search.
    """
    beam: list[Words] = [()]
    best = []
    for _ in range(k):
        found: list[tuple[float, Words]] = []
        for start in beam:
            gains.compute(start)
            after = gains.gains_after(start)
            # The pool is sorted and the sort is stable: equal gains are in alphabetical order.
            for word in np.argsort(-after, kind="stable")[:width].tolist():
                if np.isfinite(after[word]):
                    found.append((float(after[word]), (*start, word)))
        found.sort(key=lambda entry: -entry[0])
        distinct: dict[frozenset[int], Words] = {}
        for _, words in found:
            distinct.setdefault(frozenset(words), words)
        beam = list(distinct.values())[:width]
        best.append(beam[0])
    return tuple(best)


def pair_gains(gains: SentenceGains, advance: Callable[..., None] | None = None) -> Array:
    """Returns the gain of every ordered pair (first, second), NaN on the diagonal."""
    gains.compute(())
    rows = []
    for first in range(len(gains.words)):
        gains.compute((first,))
        rows.append(gains.gains_after((first,)))
        if advance is not None:
            advance()
    return np.stack(rows)


def best_pair(pairs: Array) -> Words:
    """Returns the ordered pair with the highest gain."""
    first, second = divmod(int(np.nanargmax(pairs)), len(pairs))
    return first, second
