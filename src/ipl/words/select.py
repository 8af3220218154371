"""WordChoice: everything that decides which words are chosen for given images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.shots import LabelledFeatures
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.greedy import check_k, greedy_search
from ipl.words.modes import Search, Start
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer, check_room
from ipl.words.selection import Selection
from ipl.words.template import Template


@dataclass(frozen=True)
class WordChoice:
    """Everything that decides which words are chosen for given images, but their number."""

    objective: Objective
    template: Template
    search: Search
    memory: float = MEMORY  # GiB
    pool: Pool | None = None  # None: the bundled one

    def __post_init__(self) -> None:
        if not 0 < self.memory < float("inf"):
            raise ConfigError(f"memory is {self.memory}; it must be a number of GiB above 0.")

    def candidates(self, backbone: Backbone) -> Pool:
        """Returns the words that a backbone can be given: one token each."""
        return (self.pool or Pool.bundled()).for_tokenizer(backbone.tokenizer)

    def check(self, backbone: Backbone, class_names: Sequence[str], k: int) -> None:
        """Raises ConfigError unless there are k words to choose, and room for them in a prompt."""
        check_k(k, self.candidates(backbone))
        if k:
            check_room(self.template, backbone, class_names, k)

    def choose(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        seen: LabelledFeatures,
        k: int,
        cache: Cache | None = None,
        store: FeatureStore | None = None,
        reporter: Reporter = SILENT,
        start: Start = Search.start,
    ) -> Selection:
        """Returns k words for the images seen; a `store` lets other shots reuse text features."""
        scorer = CandidateScorer(
            backbone, class_names, seen.features, seen.labels, self.template, store, self.memory
        )
        pool = self.candidates(backbone)
        return greedy_search(scorer, pool, k, self.objective, self.search, cache, reporter, start)
