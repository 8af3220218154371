"""Four ways to find the best word of a step: two that prove it, two that are quicker guesses.

A mode returns the losses it computed exactly, NaN for the words it did not have to look at. The
search takes the best of them; `certified` says whether that is the best word of the whole pool,
and whether the next nineteen are the next nineteen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.support.errors import ConfigError
from ipl.words.loss import Tangents
from ipl.words.scorer import CandidateScorer

Array = np.ndarray[Any, Any]
PROVED = 20  # the best word and the next nineteen
SAMPLE = 64  # words whose mean is the first tangent's point
NEXT = 1024  # words that get a new tangent's bound: those that would be scored next
AT_ONCE = 64  # words scored exactly before the bounds are looked at again


@dataclass(frozen=True)
class Search:
    """How to search: by what mode, and for `screen` how many words are scored exactly."""

    mode: str = "exact"
    shortlist: int = 1000
    recall: bool = False  # for `screen`: also find the true winner, to say whether it was listed

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"search is {self.mode!r}; allowed are {', '.join(MODES)}.")
        if self.shortlist < PROVED:
            raise ConfigError(f"shortlist is {self.shortlist}; it must be {PROVED} or more.")
        if self.recall and self.mode != "screen":
            raise ConfigError(f"recall is measured for search 'screen', not for {self.mode!r}.")

    @property
    def question(self) -> dict[str, Any]:
        """Returns what of these settings decides the answer."""
        if self.mode != "screen":
            return {"mode": self.mode}
        return {"mode": self.mode, "shortlist": self.shortlist, "recall": self.recall}

    @property
    def resumable(self) -> bool:
        """Returns whether a step needs nothing from the steps before it but their words."""
        return self.mode in ("exact", "exhaustive")

    def start(self, scorer: CandidateScorer, words: tuple[str, ...]) -> Mode:
        """Returns the mode, ready for the first step."""
        return MODES[self.mode](scorer, words, self)


@dataclass(frozen=True)
class SearchStep:
    """What a mode is asked: the words chosen so far, and each word's penalty (inf: chosen)."""

    selected: tuple[str, ...]
    penalty: Array  # (words,), lambda * redundancy
    loss: float  # with the words chosen so far
    advance: Callable[..., None]


class Mode:
    """Scores every word of every step, exactly."""

    certified = True
    recalled: bool | None = None  # of the last step, where it was asked for
    margin = 0.0  # of the last step: how far a loss in half precision may have been off

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        self.scorer, self.words, self.search = scorer, words, search

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact loss (words,) of each word behind the selected ones."""
        return self.scorer.score(step.selected, self.words, step.advance).numpy()

    def some(self, step: SearchStep, indices: Array, dtype: torch.dtype = torch.float32) -> Array:
        """Returns the loss of the words at these indices."""
        words = [self.words[index] for index in indices]
        return self.scorer.score(step.selected, words, None, dtype).numpy()


class Exact(Mode):
    """Scores only words whose bound does not prove that they are none of the best twenty.

    On a GPU features are computed in half precision first; words within a margin of the best
    twenty go through the tower again in fp32. The margin is several times the largest difference
    between both seen so far; should a finalist differ by more, the step is done anew in fp32.
    """

    SAFETY = 4.0
    PROBES = 64  # words whose half and fp32 losses are compared beforehand

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self.tangents = Tangents(scorer.cross_entropy)
        self._deviation = 0.0

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the words that could be among the best; NaN elsewhere."""
        if self.scorer.half is None or len(self.words) <= 2 * self.PROBES:
            return self._sweep(step, torch.float32, 0.0)
        return self._in_half(step, self.scorer.half)

    def _in_half(self, step: SearchStep, half: torch.dtype) -> Array:
        if not self._deviation:
            probes = np.linspace(0, len(self.words) - 1, self.PROBES, dtype=int)
            self._compare(self.some(step, probes, half), self.some(step, probes))
        margin = 2 * self.SAFETY * self._deviation  # either of two words may be off
        rough = self._sweep(step, half, margin) if np.isfinite(margin) else None
        if rough is None or not np.isfinite(self._deviation):  # a half has overflowed
            return self._sweep(step, torch.float32, 0.0)
        self.margin = margin / 2
        costs = rough + step.penalty
        finalists = np.flatnonzero(costs <= _best(costs) + margin)
        losses = np.full(len(self.words), np.nan)
        losses[finalists] = self.some(step, finalists)
        self._compare(rough[finalists], losses[finalists])
        if 2 * self._deviation > margin:
            self.margin = 0.0
            return self._sweep(step, torch.float32, 0.0)
        return losses

    def _compare(self, rough: Array, exact: Array) -> None:
        seen = np.abs(rough - exact).max(initial=0.0)
        self._deviation = max(self._deviation, float(np.nan_to_num(seen, nan=np.inf)))

    def _sweep(self, step: SearchStep, dtype: torch.dtype, margin: float) -> Array:
        """Returns the loss of each word that may be within `margin` of the best twenty."""
        losses = np.full(len(self.words), np.nan)
        start = 0
        for features in self.scorer.blocks(step.selected, self.words, dtype, step.advance):
            # A sum in fp32 tells of a half that overflowed without a copy of the block.
            if dtype.itemsize == 2 and not features.sum(dtype=torch.float32).isfinite():
                self._deviation = np.inf
                return losses  # before its NaNs get into a tangent
            self._prune(features, losses, slice(start, start + len(features)), step, margin)
            start += len(features)
        return losses

    def _prune(
        self, features: Tensor, losses: Array, where: slice, step: SearchStep, margin: float
    ) -> None:
        """Fills in the losses of the words in a block that their bounds do not rule out."""
        cross_entropy, tangents = self.scorer.cross_entropy, self.tangents
        penalty = step.penalty[where]
        if not len(tangents):
            tangents.add(cross_entropy.unit(features[:: 1 + len(features) // SAMPLE]).mean(0))
        bounds = tangents.bounds(features).cpu().numpy() + penalty
        waiting = np.isfinite(penalty)
        while True:
            limit = _best(losses + step.penalty) + margin
            # A NaN bound, should there be one, rules nothing out.
            near = np.flatnonzero(waiting & ~(bounds > limit))
            if not len(near):
                return
            near = near[np.argsort(bounds[near], kind="stable")]
            take, rest = near[:AT_ONCE], near[AT_ONCE : AT_ONCE + NEXT]
            losses[where][take] = cross_entropy.losses(features[take]).cpu().numpy()
            waiting[take] = False
            if len(rest):  # a tangent amid the most promising of those left
                tangents.add(cross_entropy.unit(features[rest[:AT_ONCE]]).mean(0))
                index = torch.from_numpy(rest)
                fresh = tangents.bounds(features, len(tangents) - 1, index).cpu().numpy()
                bounds[rest] = np.maximum(bounds[rest], fresh + penalty[rest])


class Screen(Mode):
    """Ranks words by the slope of the loss in the candidate's embedding, scores the best exactly.

    Approximate: a word that a linear guess ranks low is never looked at.
    """

    certified = False

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the shortlist, NaN elsewhere."""
        guesses = self.scorer.first_order(step.selected, self.words).numpy()
        order = np.argsort(guesses + step.penalty, kind="stable")
        shortlist = np.sort(order[: self.search.shortlist])
        shortlist = shortlist[np.isfinite(step.penalty[shortlist])]
        losses = np.full(len(self.words), np.nan)
        losses[shortlist] = self.some(step, shortlist)
        if self.search.recall:
            silent = replace(step, advance=_nothing)
            every = self._truth.losses(silent) + step.penalty
            self.recalled = bool(np.isfinite(losses[np.nanargmin(every)]))
        step.advance(len(self.words))
        return losses

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self._truth = Exact(scorer, words, search)


class Lazy(Mode):
    """Takes a word's last known utility as a bound on the next, best first, as if submodular.

    Approximate: the objective is not submodular, so a word whose utility grows may be missed.
    """

    certified = False

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self._utilities: Array | None = None

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the words looked at, NaN elsewhere."""
        if self._utilities is None:
            losses = super().losses(step)
            self._utilities = step.loss - losses
            return losses
        losses = np.full(len(self.words), np.nan)
        order = np.argsort(step.penalty - self._utilities, kind="stable")
        order = order[np.isfinite(step.penalty[order])]
        for start in range(0, len(order), AT_ONCE):
            take = order[start : start + AT_ONCE]
            promised = self._utilities[take[0]] - step.penalty[take[0]]
            if start and step.loss - np.nanmin(losses + step.penalty) >= promised:
                break
            losses[take] = self.some(step, take)
            self._utilities[take] = step.loss - losses[take]
        step.advance(len(self.words))
        return losses


# Makes the mode that looks at a pool: here, or wherever its parts are looked at.
Start = Callable[[Search, CandidateScorer, tuple[str, ...]], Mode]
MODES: dict[str, type[Mode]] = {"exact": Exact, "exhaustive": Mode, "screen": Screen, "lazy": Lazy}


def _nothing(steps: int = 1) -> None:
    del steps


def _best(costs: Array) -> float:
    """Returns the twentieth lowest cost, inf if there are fewer."""
    known = costs[np.isfinite(costs)]
    return float(np.partition(known, PROVED - 1)[PROVED - 1]) if len(known) >= PROVED else np.inf
