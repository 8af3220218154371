"""WordChoice: the settings that decide which words are chosen for given images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.prefix_cache import MEMORY
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.greedy import ScoreWords, check_k, greedy_search, score_words
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room
from ipl.words.selection import Selection
from ipl.words.template import Template


@dataclass(frozen=True)
class WordChoice:
    """The settings that decide which words are chosen for given images, except their number.

    Parameters
    ----------
    objective : Objective
        The gain that the search maximises.
    template : Template
        The sentence that scores words.
    search : {"exact", "exhaustive"}
        Whether most words are scored in half precision alone.
    memory : float
        GiB of working memory for the search.
    pool : Pool or None, default None
        The words to choose from; None is the bundled pool.

    Raises
    ------
    ConfigError
        If `memory` is not above 0.
    """

    objective: Objective
    template: Template
    search: str
    memory: float = MEMORY
    pool: Pool | None = None

    def __post_init__(self) -> None:
        if not 0 < self.memory < float("inf"):
            raise ConfigError(f"memory is {self.memory}; it must be a number of GiB above 0.")

    def candidates(self, backbone: Backbone) -> Pool:
        """Returns the words of the pool that are a single token of the backbone."""
        return (self.pool or Pool.bundled()).for_tokenizer(backbone.tokenizer)

    def check(self, backbone: Backbone, class_names: Sequence[str], k: int) -> None:
        """Raises ConfigError unless the pool has k words and they fit into the template."""
        check_k(k, self.candidates(backbone))
        if k:
            check_room(self.template, backbone, class_names, k)

    def choose(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        images: LabelledFeatures,
        k: int,
        cache: Cache | None = None,
        store: FeatureStore | None = None,
        reporter: Reporter = SILENT,
        stop_at_noise: bool = False,
        score: ScoreWords = score_words,
    ) -> Selection:
        """Chooses k words for labelled images.

        Parameters
        ----------
        backbone : Backbone
            The frozen towers.
        class_names : sequence of str
            The classes of the images.
        images : LabelledFeatures
            The features and labels of the training images.
        k : int
            The number of words.
        cache : Cache, optional
            Steps of the search that are in it are not computed again.
        store : FeatureStore, optional
            Keeps text features, so that other images of the same classes can reuse them.
        reporter : Reporter
            Gets the progress of the search.
        stop_at_noise : bool, default False
            Whether to stop before the first word whose gain may be chance.
        score : callable
            Scores the words of a step; the default does it in this process.

        Returns
        -------
        Selection
            The words in order, with the gain of each.
        """
        scorer = SentenceScorer(
            backbone, class_names, images.features, images.labels, self.template, store, self.memory
        )
        pool = self.candidates(backbone)
        return greedy_search(
            *(scorer, pool, k, self.objective, self.search, cache, reporter, stop_at_noise, score)
        )
