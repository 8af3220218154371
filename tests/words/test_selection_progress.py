"""A search tells how far it is often enough to be stopped soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.support.progress import Advance, Reporter
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer

POOL = Pool.from_words(Pool.bundled().words[::60], "test")


class Stopped(Exception):
    """Nobody waits for the search any longer."""


class Counter(Reporter):
    """Keeps what it is told, and stops the search after so many words."""

    def __init__(self, most: float = float("inf")) -> None:
        super().__init__(quiet=True)
        self.steps: list[int] = []
        self.most = most

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps)."""

        def advance(steps: int = 1, note: str = "") -> None:
            self.steps.append(steps)
            if sum(self.steps) >= self.most:
                raise Stopped

        yield advance


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_every_chunk_of_words_is_told(
    pocket: Backbone, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixCache, "candidates_at_once", lambda *_: 16)
    images = normalize(torch.randn(6, pocket.feature_dim), dim=-1)
    labels = torch.tensor([0, 1] * 3)
    scorer = CandidateScorer(pocket, ["cat", "ox"], images, labels)
    counter = Counter()
    greedy_search(scorer, POOL, 1, search=Search(mode), reporter=counter)
    assert sum(counter.steps) == len(POOL)
    assert max(counter.steps) == 16
    stopped = Counter(most=40)
    with pytest.raises(Stopped):
        greedy_search(scorer, POOL, 1, search=Search(mode), reporter=stopped)
    assert sum(stopped.steps) == 48
