"""The four modes of the search: two that prove the best word of a step, and two approximations.

A mode returns the losses that it computed exactly, and NaN for all other words. The search takes
the word with the highest gain; `certified` says whether it is proved to be the best word of the
whole pool, and the next nineteen to be the next best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.backbone.int8_pass import SAMPLE as CENTRED
from ipl.support.errors import ConfigError
from ipl.words.loss import Tangents
from ipl.words.scorer import CandidateScorer

Array = np.ndarray[Any, Any]
PROVED = 20  # the best word and the next nineteen
SAMPLE = 64  # words whose mean is the point of the first tangent
NEXT = 1024  # words whose bounds a new tangent improves: those that would be scored next
AT_ONCE = 64  # words scored exactly before the bounds are compared again
PAIRS_AT_ONCE = 131072  # of words and classes, if that is more words


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
    margin = 0.0  # the largest error of the lowest precision that the last step allowed for

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        self.scorer, self.words, self.search = scorer, words, search

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact loss (words,) of each word after the selected ones."""
        return self.scorer.score(step.selected, self.words, step.advance).cpu().numpy()

    def losses_at(
        self, step: SearchStep, indices: Array, dtype: torch.dtype = torch.float32
    ) -> Array:
        """Returns the loss (indices,) of the words at these indices."""
        words = [self.words[index] for index in indices]
        return self.scorer.score(step.selected, words, None, dtype).cpu().numpy()


class Exact(Mode):
    """The mode "exact": scores only words that bounds do not rule out of the best twenty.

    Where lower precisions are faster, features are computed in the lowest first, the most promising
    words again in the next, and the best of these in fp32. The twentieth of them is a limit: every
    word that may lie below it is computed again until none is left. How far a precision may be off
    is several times the largest difference from higher precisions that was measured so far; if a
    word that is computed again differs by more, the step begins anew without the lowest precision.
    """

    SAFETY = 4.0  # times the largest deviation seen: how far a loss may be off
    ROUNDING = 1e-6  # by which losses in fp32 may differ with the words that are run together
    PROBES = CENTRED  # words whose losses are compared before a precision is relied on
    MOST_LEFT = 0.5  # share of the words; a precision that leaves more of them is given up
    BEST = 32  # words of a precision that are computed in the next one at least
    # Beside them, divided by the number of classes, while its errors are not known: with fewer
    # classes they are larger.
    MORE_BEST = 800

    def __init__(self, scorer: CandidateScorer, words: tuple[str, ...], search: Search) -> None:
        super().__init__(scorer, words, search)
        self.tangents = Tangents(scorer.cross_entropy)
        # Words that are spread over the pool come first, to be probes.
        self._order = np.argsort(
            np.arange(len(words)) % -(-len(words) // self.PROBES), kind="stable"
        )
        self._deviations: dict[torch.dtype, float] = {}
        self._given_up: set[torch.dtype] = set()  # precisions that leave too many words

    def losses(self, step: SearchStep) -> Array:
        """Returns the exact losses of the words that may be among the best, NaN for the others."""
        lower = self.scorer.precisions if len(self.words) > 2 * self.PROBES else ()
        for start, first in enumerate(lower):
            if first not in self._given_up:
                losses = self._from_rough_to_exact(step, (*lower[start:], torch.float32))
                if losses is not None:
                    return losses
        self.margin = 0.0
        return self._sweep(step, torch.float32)

    def _from_rough_to_exact(
        self, step: SearchStep, precisions: tuple[torch.dtype, ...]
    ) -> Array | None:
        """Returns the losses in fp32 of finalists, None if a precision is off by too much."""
        first, exact = precisions[0], precisions[-1]
        if first not in self._deviations and first != torch.int8:  # judged on its first block
            probes = self._order[: self.PROBES]
            rough, right = (self.losses_at(step, probes, each) for each in (first, precisions[1]))
            self._compare(first, rough, right)
        if not np.isfinite(self._margin(first)):
            return None
        losses = {dtype: np.full(len(self.words), np.nan) for dtype in precisions}
        losses[first] = self._sweep(step, first)
        self.margin = self._margin(first)
        if first in self._given_up or not np.isfinite(self.margin):
            return None
        margins: dict[torch.dtype, float] = {}
        for rougher, dtype in pairwise(precisions):  # most of what will be needed, at once
            promising = self._promising(step, losses, rougher)
            if len(promising) > self.MOST_LEFT * len(self.words):
                self._given_up.add(rougher)  # for the steps to come
            if rougher == torch.int8:  # and words that it was not centred on
                promising = np.union1d(promising, self._order[self.PROBES : 2 * self.PROBES])
            self._compute_again(step, losses, dtype, promising)
            margins[rougher] = self._margin(rougher) if rougher != first else self.margin
            if not np.isfinite(self._margin(rougher)):  # it has overflowed
                return None
        limit = _best(losses[exact] + step.penalty)
        if limit > _best(losses[first] + step.penalty) + self.margin:
            return None  # bounds may have ruled out too much
        for rougher, dtype in pairwise(precisions):
            near = np.flatnonzero(losses[rougher] + step.penalty <= limit + margins[rougher])
            self._compute_again(step, losses, dtype, near)
        if any(self._deviations[each] > margin for each, margin in margins.items()):
            return None
        return losses[exact]

    def _promising(
        self, step: SearchStep, losses: dict[torch.dtype, Array], dtype: torch.dtype
    ) -> Array:
        """Returns the best words, and those that may be among them if the limit hardly rises."""
        costs = losses[dtype] + step.penalty
        known = np.isfinite(costs).sum()
        near = self._deviations.get(dtype, 0.0) + self._margin(dtype)
        least = self.BEST
        if dtype not in self._deviations:
            least += self.MORE_BEST // self.scorer.cross_entropy.classes
        count = max(least, (costs <= _best(costs) + near).sum())
        return np.argsort(costs, kind="stable")[: min(count, known)]

    def _margin(self, dtype: torch.dtype) -> float:
        """Returns how far a loss in a precision may be off; 0 if that is not known."""
        return self.SAFETY * self._deviations.get(dtype, 0.0)

    def _compute_again(
        self, step: SearchStep, losses: dict[torch.dtype, Array], dtype: torch.dtype, words: Array
    ) -> None:
        """Fills in losses in a precision, and compares them with those in the others."""
        missing = words[np.isnan(losses[dtype][words])]
        if not len(missing):
            return
        # NaN stands for what was not computed.
        losses[dtype][missing] = _nan_to_inf(self.losses_at(step, missing, dtype))
        for rougher, higher in combinations(losses, 2):
            pairs = losses[rougher][missing], losses[higher][missing]
            both = ~np.isnan(pairs).any(0)
            if dtype in (rougher, higher) and both.any():
                self._compare(rougher, pairs[0][both], pairs[1][both])

    def _compare(self, dtype: torch.dtype, rough: Array, exact: Array) -> None:
        largest = float(_nan_to_inf(np.abs(rough - exact).max()))
        self._deviations[dtype] = max(self._deviations.get(dtype, self.ROUNDING), largest)

    def _sweep(self, step: SearchStep, dtype: torch.dtype) -> Array:
        """Returns the loss of each word that may be among the best twenty."""
        losses = np.full(len(self.words), np.nan)
        start, words = 0, [self.words[index] for index in self._order]
        for features in self.scorer.blocks(step.selected, words, dtype, step.advance):
            # A sum in fp32 shows an overflow of half precision without a copy of the block.
            if dtype != torch.float32 and not features.sum(dtype=torch.float32).isfinite():
                self._deviations[dtype] = np.inf
                return losses  # before NaN gets into a tangent
            block = self._order[start : start + len(features)]
            if dtype == torch.int8 and not start:
                probes = slice(2 * self.PROBES)
                losses[block[probes]] = self.scorer.losses(features[probes], dtype).cpu().numpy()
                if dtype not in self._deviations:
                    self._judge_8_bits(step, losses[block[: self.PROBES]])
                    if dtype in self._given_up:
                        return losses
            self._prune(features, dtype, losses, block, step)
            start += len(features)
            del features  # before the next ones are computed
        return losses

    def _judge_8_bits(self, step: SearchStep, rough: Array) -> None:
        """Measures how far 8-bit losses of the words that rounding is centred on are off."""
        # In this precision they have been run anyway.
        exact = self.losses_at(step, self._order[: self.PROBES], torch.float16)[: len(rough)]
        self._compare(torch.int8, rough, exact)
        near = exact <= exact.min() + self._margin(torch.int8)
        # The best words of the pool are lower than those of a sample, so that fewer are near.
        if near.mean() > self.MOST_LEFT / 2:
            self._given_up.add(torch.int8)

    def _prune(
        self, features: Tensor, dtype: torch.dtype, losses: Array, words: Array, step: SearchStep
    ) -> None:
        """Fills in the losses of those words of a block that bounds do not rule out."""
        cross_entropy, tangents = self.scorer.cross_entropy, self.tangents
        at_once = AT_ONCE
        if features.device.type == "cuda":  # which has little to do for a few words and classes
            at_once = max(AT_ONCE, PAIRS_AT_ONCE // cross_entropy.classes)
        penalty = step.penalty[words]
        if not len(tangents):
            tangents.add(cross_entropy.middle(features[:: 1 + len(features) // SAMPLE]))
        rough = dtype == torch.int8
        # The errors of two words may add up.
        margin = 2 * self._margin(dtype) if dtype != torch.float32 else 0.0
        bounds = tangents.bounds(features, rough=rough).cpu().numpy() + penalty
        waiting = np.isfinite(penalty)

        def most_promising() -> Array:
            limit = _best(losses + step.penalty) + margin
            # A bound that is NaN rules nothing out.
            near = np.flatnonzero(waiting & ~(bounds > limit))
            return near[np.argsort(bounds[near], kind="stable")]

        while len(batch := most_promising()[:at_once]):
            new_losses = self.scorer.losses(features, dtype, torch.from_numpy(batch))
            losses[words[batch]] = new_losses.cpu().numpy()
            waiting[batch] = False
            if len(later := most_promising()[:NEXT]):  # a tangent amid them
                tangents.add(cross_entropy.middle(features[later[:AT_ONCE]]))
                rows = torch.from_numpy(later)
                new_bounds = tangents.bounds(features, len(tangents) - 1, rows, rough).cpu().numpy()
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


def _nan_to_inf(values: Array) -> Array:
    return np.nan_to_num(values, nan=np.inf, posinf=np.inf)


def _best(costs: Array) -> float:
    """Returns the twentieth lowest cost, inf if there are fewer."""
    known = costs[np.isfinite(costs)]
    return float(np.partition(known, PROVED - 1)[PROVED - 1]) if len(known) >= PROVED else np.inf
