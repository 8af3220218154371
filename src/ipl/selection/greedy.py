"""Greedy search: at each step the word that lowers the loss most without repeating the others."""

from __future__ import annotations

import time

import numpy as np

from ipl.errors import ConfigError
from ipl.lexicon import Pool
from ipl.progress import SILENT, Reporter
from ipl.selection.objective import Objective
from ipl.selection.scorer import CandidateScorer
from ipl.selection.trace import RankedWord, Selection, SelectionStep

RUNNERS_UP = 19


def select_words(
    scorer: CandidateScorer,
    pool: Pool,
    k: int,
    objective: Objective | None = None,
    reporter: Reporter = SILENT,
) -> Selection:
    """Returns k words of the pool; every word is scored exactly at every step."""
    objective = objective or Objective()
    check_k(k, pool)
    scorer.check_room(k)
    embeddings = objective.embed_words(scorer.backbone, [scorer.token(w) for w in pool.words])
    empty = loss = scorer.loss([])
    chosen: list[int] = []
    steps: list[SelectionStep] = []
    while len(chosen) < k:
        started = time.perf_counter()
        selected = [pool.words[i] for i in chosen]
        title = f"Choosing word {len(chosen) + 1} of {k}"
        with reporter.task(title, len(pool)) as advance:
            losses = scorer.score(selected, pool.words, advance).double().numpy()
        redundancy = objective.redundancy(embeddings, chosen).cpu().double().numpy()
        gains = (loss - losses) - objective.lambda_ * redundancy
        gains[chosen] = -np.inf
        # The pool is sorted and the sort is stable, so equal gains go in alphabetical order.
        ranking = np.argsort(-gains, kind="stable")[: 1 + RUNNERS_UP]
        best = int(ranking[0])
        steps.append(
            SelectionStep(
                word=pool.words[best],
                utility=float(loss - losses[best]),
                redundancy=float(redundancy[best]),
                gain=float(gains[best]),
                loss=float(losses[best]),
                runners_up=tuple(
                    RankedWord(pool.words[i], float(gains[i]))
                    for i in ranking[1:]
                    if np.isfinite(gains[i])
                ),
                scored=len(pool) - len(chosen),
                seconds=time.perf_counter() - started,
            )
        )
        chosen.append(best)
        loss = steps[-1].loss
    return Selection(
        steps=tuple(steps),
        loss_without_words=empty,
        template=scorer.template.text,
        lambda_=objective.lambda_,
        preset=objective.preset,
        word_embedding=objective.word_embedding,
        pool_size=len(pool),
        pool_sha256=pool.sha256,
    )


def check_k(k: int, pool: Pool) -> None:
    """Raises ConfigError unless the pool has k words to give."""
    if not 0 <= k <= len(pool):
        raise ConfigError(f"words is {k}; the pool has {len(pool)} words to choose from.")
