"""The four modes of the search: two that prove the best word of a step, and two approximations.

A mode returns the losses that it computed exactly, and NaN for all other words. The search takes
the word with the highest gain; `certified` says whether it is proved to be the best word of the
whole pool, and the next nineteen to be the next best.
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
SAMPLE = 64  # words whose mean is the point of the first tangent
NEXT = 1024  # words whose bounds a new tangent improves: those that would be scored next
AT_ONCE = 64  # words scored exactly before the bounds are compared again


@dataclass(frozen=True)
class Search:
    """The mode of the search.

    Parameters
    ----------
    mode : str, default "exact"
        "exact" (proved, most words are ruled out by bounds), "exhaustive" (proved, every word is
        scored), "screen" or "lazy" (both approximate).
    shortlist : int, default 1000
        With "screen": how many words are scored exactly.
    recall : bool, default False
        With "screen": also find the true best word, to say whether it was on the shortlist.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    """

    mode: str = "exact"
    shortlist: int = 1000
    recall: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"search is {self.mode!r}; allowed are {', '.join(MODES)}.")
        if self.shortlist < PROVED:
            raise ConfigError(f"shortlist is {self.shortlist}; it must be {PROVED} or more.")
        if self.recall and self.mode != "screen":
            raise ConfigError(f"recall works only with search 'screen', not with {self.mode!r}.")

    @property
    def question(self) -> dict[str, Any]:
        """Returns the settings that the result depends on, for the key of a cache."""
        if self.mode != "screen":
            return {"mode": self.mode}
        return {"mode": self.mode, "shortlist": self.shortlist, "recall": self.recall}

    @property
    def resumable(self) -> bool:
        """Returns whether a step depends on the earlier steps only through their words."""
        return self.mode in ("exact", "exhaustive")

    def start(self, scorer: CandidateScorer, words: tuple[str, ...]) -> Mode:
        """Returns the mode, ready for its first step.

        Parameters
        ----------
        scorer : CandidateScorer
            Computes the loss of candidate words.
        words : tuple of str
            The words of the pool.

        Returns
        -------
        Mode
            The mode.
        """
        return MODES[self.mode](scorer, words, self)


@dataclass(frozen=True)
class SearchStep:
    """The input of a mode: the words chosen so far and the penalty of each word of the pool."""

    selected: tuple[str, ...]
    penalty: Array  # (words,), lambda * redundancy; inf for words that are already chosen
    loss: float  # with the words chosen so far
    advance: Callable[..., None]


class Mode:
    """The mode "exhaustive": computes the loss of every word at every step."""

    certified = True
    recalled: bool | None = None  # whether the last shortlist held the best word, if measured
    margin = 0.0  # the largest error of half precision that the last step allowed for

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        self.scorer, self.words, self.search = scorer, words, search

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact loss (words,) of each word after the selected ones."""
        return self.scorer.score(step.selected, self.words, step.advance).numpy()

    def losses_at(
        self, step: SearchStep, indices: Array, dtype: torch.dtype = torch.float32
    ) -> Array:
        """Returns the loss (indices,) of the words at these indices."""
        words = [self.words[index] for index in indices]
        return self.scorer.score(step.selected, words, None, dtype).numpy()


class Exact(Mode):
    """The mode "exact": scores only words that bounds do not rule out of the best twenty.

    Where half precision is faster, features are computed in it first; words within a margin of the
    best twenty are computed again in fp32. The margin is several times the largest difference
    between the two measured so far; if a finalist differs by more, the step is repeated in fp32.
    """

    SAFETY = 4.0
    ROUNDING = 1e-6  # by which losses in fp32 may differ with the words that are run together
    PROBES = 64  # words whose losses in half precision and fp32 are compared beforehand

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self.tangents = Tangents(scorer.cross_entropy)
        self._deviation = 0.0

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the words that may be among the best, NaN for the others."""
        if self.scorer.half is None or len(self.words) <= 2 * self.PROBES:
            return self._sweep(step, torch.float32, 0.0)
        return self._in_half(step, self.scorer.half)

    def _in_half(self, step: SearchStep, half: torch.dtype) -> Array:
        if not self._deviation:
            probes = np.linspace(0, len(self.words) - 1, self.PROBES, dtype=int)
            self._compare(self.losses_at(step, probes, half), self.losses_at(step, probes))
        margin = 2 * self.SAFETY * self._deviation  # the errors of two words may add up
        rough = self._sweep(step, half, margin) if np.isfinite(margin) else None
        if rough is None or not np.isfinite(self._deviation):  # half precision has overflowed
            return self._sweep(step, torch.float32, 0.0)
        self.margin = margin / 2
        costs = rough + step.penalty
        finalists = np.flatnonzero(costs <= _best(costs) + margin)
        losses = np.full(len(self.words), np.nan)
        losses[finalists] = self.losses_at(step, finalists)
        self._compare(rough[finalists], losses[finalists])
        if 2 * self._deviation > margin:
            self.margin = 0.0
            return self._sweep(step, torch.float32, 0.0)
        return losses

    def _compare(self, rough: Array, exact: Array) -> None:
        deviation = np.abs(rough - exact).max(initial=0.0)
        largest = float(np.nan_to_num(deviation, nan=np.inf))
        self._deviation = max(self._deviation, largest, self.ROUNDING)

    def _sweep(self, step: SearchStep, dtype: torch.dtype, margin: float) -> Array:
        """Returns the loss of each word that may be within `margin` of the best twenty."""
        losses = np.full(len(self.words), np.nan)
        start = 0
        for features in self.scorer.blocks(step.selected, self.words, dtype, step.advance):
            # A sum in fp32 shows an overflow of half precision without a copy of the block.
            if dtype.itemsize == 2 and not features.sum(dtype=torch.float32).isfinite():
                self._deviation = np.inf
                return losses  # before NaN gets into a tangent
            self._prune(features, losses, slice(start, start + len(features)), step, margin)
            start += len(features)
        return losses

    def _prune(
        self, features: Tensor, losses: Array, block: slice, step: SearchStep, margin: float
    ) -> None:
        """Fills in the losses of those words of a block that bounds do not rule out."""
        cross_entropy, tangents = self.scorer.cross_entropy, self.tangents
        penalty = step.penalty[block]
        if not len(tangents):
            tangents.add(cross_entropy.unit(features[:: 1 + len(features) // SAMPLE]).mean(0))
        bounds = tangents.bounds(features).cpu().numpy() + penalty
        waiting = np.isfinite(penalty)
        while True:
            limit = _best(losses + step.penalty) + margin
            # A bound that is NaN rules nothing out.
            near = np.flatnonzero(waiting & ~(bounds > limit))
            if not len(near):
                return
            near = near[np.argsort(bounds[near], kind="stable")]
            batch, later = near[:AT_ONCE], near[AT_ONCE : AT_ONCE + NEXT]
            losses[block][batch] = cross_entropy.losses(features[batch]).cpu().numpy()
            waiting[batch] = False
            if len(later):  # a tangent amid the most promising of the remaining words
                tangents.add(cross_entropy.unit(features[later[:AT_ONCE]]).mean(0))
                rows = torch.from_numpy(later)
                new_bounds = tangents.bounds(features, len(tangents) - 1, rows).cpu().numpy()
                bounds[later] = np.maximum(bounds[later], new_bounds + penalty[later])


class Screen(Mode):
    """The mode "screen": ranks words by a linear estimate of the loss and scores the best exactly.

    Approximate: a word that the estimate ranks low is never scored.
    """

    certified = False

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self._exact = Exact(scorer, words, search)

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the shortlist, NaN for the others."""
        estimates = self.scorer.first_order(step.selected, self.words).numpy()
        order = np.argsort(estimates + step.penalty, kind="stable")
        shortlist = np.sort(order[: self.search.shortlist])
        shortlist = shortlist[np.isfinite(step.penalty[shortlist])]
        losses = np.full(len(self.words), np.nan)
        losses[shortlist] = self.losses_at(step, shortlist)
        if self.search.recall:
            silent = replace(step, advance=_no_progress)
            costs = self._exact.losses(silent) + step.penalty
            self.recalled = bool(np.isfinite(losses[np.nanargmin(costs)]))
        step.advance(len(self.words))
        return losses


class Lazy(Mode):
    """The mode "lazy": takes the last utility of a word as a bound on its next one.

    Approximate: the objective is not submodular, so a word whose utility rises may be missed.
    """

    certified = False

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self._utilities: Array | None = None

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the words with the highest bounds, NaN for the others."""
        if self._utilities is None:
            losses = super().losses(step)
            self._utilities = step.loss - losses
            return losses
        losses = np.full(len(self.words), np.nan)
        order = np.argsort(step.penalty - self._utilities, kind="stable")
        order = order[np.isfinite(step.penalty[order])]
        for start in range(0, len(order), AT_ONCE):
            batch = order[start : start + AT_ONCE]
            bound = self._utilities[batch[0]] - step.penalty[batch[0]]
            if start and step.loss - np.nanmin(losses + step.penalty) >= bound:
                break
            losses[batch] = self.losses_at(step, batch)
            self._utilities[batch] = step.loss - losses[batch]
        step.advance(len(self.words))
        return losses


# Starts a mode for a pool, in this process or on a cluster.
Start = Callable[[Search, CandidateScorer, tuple[str, ...]], Mode]
MODES: dict[str, type[Mode]] = {"exact": Exact, "exhaustive": Mode, "screen": Screen, "lazy": Lazy}


def _no_progress(steps: int = 1) -> None:
    del steps


def _best(costs: Array) -> float:
    """Returns the twentieth lowest cost, inf if there are fewer."""
    known = costs[np.isfinite(costs)]
    return float(np.partition(known, PROVED - 1)[PROVED - 1]) if len(known) >= PROVED else np.inf
