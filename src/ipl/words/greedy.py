"""Greedy search: at each step, the word with the highest gain joins the words chosen so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.certainty import Resamples
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room
from ipl.words.selection import RankedWord, Selection, SelectionStep
from ipl.words.selection_cache import SelectionCache, word_embeddings

RANKED = 20  # the best word of a step and the next nineteen
FINALISTS = 64  # words that are scored in fp32 at least
SAFETY = 4.0  # times the largest difference seen: how far half precision may be off
Array = np.ndarray[Any, Any]


class StepLosses(NamedTuple):
    """The losses of a step's words in fp32, and how far half precision may have been off."""

    losses: Array  # (words,), NaN for words that were scored in half precision alone
    margin: float  # 0 if every word was scored in fp32


# Scores words at a step: see `score_words`, or `bench/engines/ray_search.py` for a cluster.
ScoreWords = Callable[
    [str, SentenceScorer, Sequence[str], Sequence[str], Array, Callable[..., None]], StepLosses
]


def score_words(
    search: str,
    scorer: SentenceScorer,
    words: Sequence[str],
    selected: Sequence[str],
    penalty: Array,
    advance: Callable[..., None],
) -> StepLosses:
    """Scores the words of a step in fp32: all of them, or those that may be the best.

    With "exact", all words are scored in half precision and the best again in fp32, until the worst
    of these is worse than the twentieth best by more than the precisions were seen to differ.

    Parameters
    ----------
    search : {"exact", "exhaustive"}
        Whether half precision may be used, if the device has a faster one.
    scorer : SentenceScorer
        Computes the losses.
    words : sequence of str
        The words.
    selected : sequence of str
        The words chosen so far.
    penalty : ndarray of shape (words,)
        lambda * redundancy; inf for words that are already chosen.
    advance : callable
        Gets the number of words that were scored.

    Returns
    -------
    StepLosses
        The losses, and the margin that was allowed for.
    """
    half = scorer.half
    candidates = np.flatnonzero(np.isfinite(penalty))
    if search == "exhaustive" or half is None or len(candidates) <= FINALISTS:
        return StepLosses(scorer.score(selected, words, advance).cpu().numpy(), 0.0)
    rough = scorer.score(selected, words, advance, half).cpu().numpy()
    if not np.isfinite(rough).all():  # half precision has overflowed
        return StepLosses(scorer.score(selected, words).cpu().numpy(), 0.0)
    order = candidates[np.argsort((rough + penalty)[candidates], kind="stable")]
    losses, count = np.full(len(words), np.nan), 0
    while count < len(order):
        finalists = order[count : max(FINALISTS, 2 * count)]
        losses[finalists] = scorer.score(selected, [words[i] for i in finalists]).cpu().numpy()
        count += len(finalists)
        margin = SAFETY * float(np.nanmax(np.abs(losses - rough)))
        worst = (rough + penalty)[order[count - 1]]
        if worst > np.sort((losses + penalty)[order[:count]])[RANKED - 1] + margin:
            return StepLosses(losses, margin)
    return StepLosses(losses, 0.0)


def greedy_search(
    scorer: SentenceScorer,
    pool: Pool,
    k: int,
    objective: Objective | None = None,
    search: str = "exact",
    cache: Cache | None = None,
    reporter: Reporter = SILENT,
    stop_at_noise: bool = False,
    score: ScoreWords = score_words,
) -> Selection:
    """Returns the k words of a pool that a greedy search chooses.

    Parameters
    ----------
    scorer : SentenceScorer
        Computes the loss of candidate words.
    pool : Pool
        The words to choose from, each a single token of the backbone.
    k : int
        The number of words.
    objective : Objective, optional
        The gain that the search maximises.
    search : {"exact", "exhaustive"}, default "exact"
        Whether most words are scored in half precision alone.
    cache : Cache, optional
        Finished steps are kept in it and not computed again.
    reporter : Reporter
        Gets the progress, and the selection after every step.
    stop_at_noise : bool, default False
        Whether to stop before the first word whose gain has a 90 % interval that includes 0, which
        may be the first word.
    score : callable
        Scores the words of a step; the default does it in this process.

    Returns
    -------
    Selection
        The words in order, with the gain of each.

    Raises
    ------
    ConfigError
        If the pool has fewer than k words, or the backbone has no room for them.
    """
    objective = objective or Objective()
    check_k(k, pool)
    if k:
        check_room(scorer.template, scorer.backbone, scorer.class_names, k)
    entry = SelectionCache(cache, scorer, pool, objective, search)
    selection = entry.read() or _empty_selection(scorer, pool, objective, search)
    if not k and not selection.steps:
        selection = replace(selection, loss_without_words=scorer.loss(()))
    if enough := _enough(selection, k, stop_at_noise):
        if k:
            reporter.say("The words are in the cache.")
        reporter.record_event(enough)
        return enough
    if not scorer.backbone.causal:
        reporter.say(
            f"The text tower of {scorer.backbone.name} is not causal: every prompt is encoded in "
            "full, which gives the same words but takes many times longer."
        )
    embeddings = word_embeddings(cache, scorer.backbone, pool, objective)
    resamples = Resamples(scorer.cross_entropy.labels)
    while True:
        title = f"Choosing word {len(selection.steps) + 1}" + ("" if stop_at_noise else f" of {k}")
        with reporter.task(title, len(pool)) as advance:
            loss, step = _step(
                scorer,
                pool,
                selection.words,
                embeddings,
                objective,
                resamples,
                lambda selected, penalty: score(
                    search, scorer, pool.words, selected, penalty, advance
                ),
            )
        if not selection.steps:
            selection = replace(selection, loss_without_words=loss)
        selection = replace(selection, steps=(*selection.steps, step))
        entry.write(selection)
        enough = _enough(selection, k, stop_at_noise)
        reporter.record_event(enough or selection)
        if enough:
            return enough


def _enough(selection: Selection, k: int, stop_at_noise: bool) -> Selection | None:
    """Returns the part of a selection that answers the question, None if it needs more steps."""
    for index, step in enumerate(selection.steps[:k] if stop_at_noise else ()):
        if not step.earns_its_place:
            return replace(selection.first(index), stopped_before=step)
    return selection.first(k) if len(selection.steps) >= k else None


def _empty_selection(
    scorer: SentenceScorer, pool: Pool, objective: Objective, search: str
) -> Selection:
    return Selection(
        steps=(),
        loss_without_words=float("nan"),  # the first step knows it
        template=scorer.template.text,
        **asdict(objective),
        pool_size=len(pool),
        pool_sha256=pool.sha256,
        search=search,
    )


def _step(
    scorer: SentenceScorer,
    pool: Pool,
    selected: tuple[str, ...],
    embeddings: Tensor,
    objective: Objective,
    resamples: Resamples,
    score: Callable[[Sequence[str], Array], StepLosses],
) -> tuple[float, SelectionStep]:
    """Returns the loss before the step, and the step."""
    started = time.perf_counter()
    without = scorer.losses_without(selected)
    loss = float(without.mean())
    chosen = [pool.words.index(word) for word in selected]
    redundancy = objective.redundancy(embeddings, chosen).cpu().double().numpy()
    penalty = objective.lambda_ * redundancy
    penalty[chosen] = np.inf
    losses, margin = score(selected, penalty)
    gains = objective.gain(loss - losses, redundancy)
    gains[chosen] = np.nan
    checked = int(np.isfinite(gains).sum())
    # The pool is sorted and the sort is stable, so equal gains are in alphabetical order.
    ranking = np.argsort(-gains, kind="stable")[: min(RANKED, checked)]
    best = int(ranking[0])
    best_twenty = scorer.image_losses(selected, [pool.words[i] for i in ranking])
    image_losses = torch.cat([without[None], best_twenty])
    step = SelectionStep(
        word=pool.words[best],
        utility=float(loss - losses[best]),
        redundancy=float(redundancy[best]),
        gain=float(gains[best]),
        loss=float(losses[best]),
        runners_up=tuple(RankedWord(pool.words[i], float(gains[i])) for i in ranking[1:]),
        checked=checked,
        margin=margin,
        seconds=time.perf_counter() - started,
        certainty=resamples.certainty(image_losses, torch.from_numpy(penalty[ranking])),
    )
    return loss, step


def check_k(k: int, pool: Pool) -> None:
    """Raises ConfigError unless the pool has k words."""
    if not isinstance(k, int) or k < 0:
        raise ConfigError(f"words is {k!r}; it must be a whole number, 0 or more.")
    if k > len(pool):
        raise ConfigError(f"words is {k}; the pool has {len(pool)} words to choose from.")
