"""Greedy search: at each step, the word with the highest gain joins the words chosen so far."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.certainty import Resamples
from ipl.words.modes import Mode, Search, SearchStep, Start
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room
from ipl.words.selection import RankedWord, Selection, SelectionStep
from ipl.words.selection_cache import SelectionCache, word_embeddings

RUNNERS_UP = 19
Array = np.ndarray[Any, Any]


def greedy_search(
    scorer: SentenceScorer,
    pool: Pool,
    k: int,
    objective: Objective | None = None,
    search: Search | None = None,
    cache: Cache | None = None,
    reporter: Reporter = SILENT,
    start: Start = Search.start,
    stop_at_noise: bool = False,
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
    search : Search, optional
        The mode of the search.
    cache : Cache, optional
        Finished steps are kept in it and not computed again.
    reporter : Reporter
        Gets the progress, and the selection after every step.
    start : callable
        Starts the search; the default searches in this process.
    stop_at_noise : bool, default False
        Whether to stop before the first word whose gain has a 90 % interval that includes 0, which
        may be the first word.

    Returns
    -------
    Selection
        The words in order, with the gain of each.

    Raises
    ------
    ConfigError
        If the pool has fewer than k words, or the backbone has no room for them.
    """
    objective, search = objective or Objective(), search or Search()
    check_k(k, pool)
    if k:
        check_room(scorer.template, scorer.backbone, scorer.class_names, k)
    entry = SelectionCache(cache, scorer, pool, objective, search)
    selection, gains = entry.read() or (_empty_selection(scorer, pool, objective, search), [])
    if not k and not selection.steps:
        selection = replace(selection, loss_without_words=scorer.loss(()))
    if enough := _enough(selection, k, stop_at_noise):
        if k:
            reporter.say("The words are in the cache.")
        reporter.record_event(enough)
        return enough
    if not search.resumable:
        selection, gains = selection.first(0), []
    if not scorer.backbone.causal:
        reporter.say(
            f"The text tower of {scorer.backbone.name} is not causal: every prompt is encoded in "
            "full, which gives the same words but takes many times longer."
        )
    embeddings = word_embeddings(cache, scorer.backbone, pool, objective)
    mode = start(search, scorer, pool.words)
    resamples = Resamples(scorer.cross_entropy.labels)
    while True:
        title = f"Choosing word {len(selection.steps) + 1}" + ("" if stop_at_noise else f" of {k}")
        with reporter.task(title, len(pool)) as advance:
            loss, step, step_gains = _step(
                mode, pool, selection.words, embeddings, objective, resamples, advance
            )
        if gains:
            compared, rising = _rising(gains[-1], step_gains)
            step = replace(step, compared=compared, rising=rising)
        gains.append(step_gains)
        if not selection.steps:
            selection = replace(selection, loss_without_words=loss)
        selection = replace(selection, steps=(*selection.steps, step))
        entry.write(selection, gains)
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
    scorer: SentenceScorer, pool: Pool, objective: Objective, search: Search
) -> Selection:
    return Selection(
        steps=(),
        loss_without_words=float("nan"),  # the first step knows it
        template=scorer.template.text,
        **asdict(objective),
        pool_size=len(pool),
        pool_sha256=pool.sha256,
        search=search.mode,
    )


def _step(
    mode: Mode,
    pool: Pool,
    selected: tuple[str, ...],
    embeddings: Tensor,
    objective: Objective,
    resamples: Resamples,
    advance: Any,
) -> tuple[float, SelectionStep, Array]:
    """Returns the loss before the step, the step, and the gain of each word (words,).

    The gain is NaN where it was not computed.
    """
    started = time.perf_counter()
    scorer = mode.scorer
    without = scorer.losses_without(selected)
    loss = float(without.mean())
    chosen = [pool.words.index(word) for word in selected]
    redundancy = objective.redundancy(embeddings, chosen).cpu().double().numpy()
    penalty = objective.lambda_ * redundancy
    penalty[chosen] = np.inf
    losses = mode.losses(SearchStep(selected, penalty, loss, advance))
    gains = objective.gain(loss - losses, redundancy)
    gains[chosen] = np.nan
    # The pool is sorted and the sort is stable, so equal gains are in alphabetical order.
    ranking = np.argsort(-gains, kind="stable")[: min(1 + RUNNERS_UP, np.isfinite(gains).sum())]
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
        scored=int(np.isfinite(gains).sum()),
        seconds=time.perf_counter() - started,
        certified=mode.certified,
        margin=mode.margin,
        recalled=mode.recalled,
        certainty=resamples.certainty(image_losses, torch.from_numpy(penalty[ranking])),
    )
    return loss, step, gains


def _rising(previous: Array, current: Array) -> tuple[int, int]:
    """Returns how many words have a gain at both steps, and how many of these gains rose."""
    both = np.isfinite(previous) & np.isfinite(current)
    return int(both.sum()), int((current[both] > previous[both]).sum())


def check_k(k: int, pool: Pool) -> None:
    """Raises ConfigError unless the pool has k words."""
    if not isinstance(k, int) or k < 0:
        raise ConfigError(f"words is {k!r}; it must be a whole number, 0 or more.")
    if k > len(pool):
        raise ConfigError(f"words is {k}; the pool has {len(pool)} words to choose from.")
