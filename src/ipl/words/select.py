"""From images to words, without training anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.shots import LabelledFeatures, draw_shots
from ipl.datasets.fewshot import check_draw
from ipl.datasets.readers import read_dataset
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.greedy import check_k, greedy_search
from ipl.words.modes import Search, Start
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer, check_room
from ipl.words.selection import Selection
from ipl.words.template import DEFAULT_TEMPLATE, Template


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

    @classmethod
    def of(
        cls,
        lambda_: float,
        preset: str,
        word_embedding: str,
        template: str,
        search: str | Search,
        memory: float,
        pool: Pool | None,
    ) -> WordChoice:
        """Returns the choice that plain settings mean."""
        search = search if isinstance(search, Search) else Search(search)
        objective = Objective(lambda_, preset, word_embedding)
        return cls(objective, Template(template), search, memory, pool)

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


def select_words(
    data: Any,
    words: int = 3,
    *,
    backbone: str | Backbone = "pocket",
    shots: int = 16,
    lambda_: float = 0.1,
    preset: str = "paper",
    word_embedding: str = "text",
    template: str = DEFAULT_TEMPLATE,
    search: str | Search = "exact",
    memory: float = MEMORY,
    pool: Pool | None = None,
    seed: int = 1,
    device: str = "auto",
    precision: str = "fp32",
    cache: bool = True,
    strict: bool = False,
    reporter: Reporter = SILENT,
    start: Start = Search.start,
) -> Selection:
    """Returns the words that a prompt for these images would get, and how they were found.

    They are the words of `PromptClassifier.fit` with the same settings, for any learner. `start`
    may have the pool looked at elsewhere.
    """
    check_draw(shots, seed)
    choice = WordChoice.of(lambda_, preset, word_embedding, template, search, memory, pool)
    dataset = read_dataset(data, strict)
    if not isinstance(backbone, Backbone):
        backbone = load_backbone(backbone, device, precision)
    choice.check(backbone, dataset.class_names, words)  # before anything is computed
    disk = Cache(reporter=reporter) if cache else None
    store = FeatureStore(backbone, disk)
    drawn, _ = draw_shots(dataset, shots, seed, store, strict, reporter)
    for note in (*dataset.notes, *drawn.notes):
        reporter.warn(note)
    found = choice.choose(backbone, dataset.class_names, drawn, words, disk, None, reporter, start)
    for note in found.notes:
        reporter.warn(note)
    return found
