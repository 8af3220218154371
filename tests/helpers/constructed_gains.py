"""Gains of words whose utility is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import torch

from ipl.bench.sentence_gains import SentenceGains, Words
from ipl.words.objective import Objective
from ipl.words.scorer import SentenceScorer


def constructed_gains(
    utility: Callable[[Words], float], size: int, lambda_: float = 0.0
) -> SentenceGains:
    """Returns the gains of words whose utility is known, all as similar to each other."""

    def score(selected: Sequence[str], candidates: Sequence[str]) -> torch.Tensor:
        start = [int(word) for word in selected]
        return torch.tensor([10 - utility((*start, int(word))) for word in candidates]).double()

    scorer = SimpleNamespace(loss=lambda words: 10.0 - utility(()), score=score)
    words = [str(index) for index in range(size)]
    same = torch.ones(size, 1)
    return SentenceGains(cast(SentenceScorer, scorer), words, Objective(lambda_), same)
