"""select_words: the words that a prompt for some images would get, without training anything."""

from __future__ import annotations

from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.backbone.loading import load_backbone
from ipl.config import FitConfig, settings
from ipl.config_fields import DATA, MACHINE, MODEL, WORDS, takes_settings
from ipl.datasets.readers import read_dataset
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, word_choice
from ipl.words.greedy import ScoreWords, score_words
from ipl.words.pool import Pool
from ipl.words.selection import Selection


@takes_settings(settings(DATA, MODEL, WORDS, MACHINE))
def select_words(
    data: Any,
    words: int = 3,
    *,
    backbone: str | Backbone = "pocket",
    pool: Pool | None = None,
    reporter: Reporter = SILENT,
    score: ScoreWords = score_words,
    **settings: Any,
) -> Selection:
    """Chooses words for a dataset, without training.

    They are the words that `PromptClassifier.fit` chooses with the same settings, for any learner.

    Parameters
    ----------
    data : str, Path, Dataset or object
        A folder, a CSV or JSONL file, a Dataset, or a dataset of Hugging Face or torchvision.
    words : int, default 3
        How many words to choose, k.
    backbone : str or Backbone, default "pocket"
        pocket (bundled), a Hugging Face name, a model folder, or a loaded backbone.
    pool : Pool or None, default None
        The words to choose from. Default: those that `words_file` and `no_names` give.
    reporter : Reporter
        Gets the progress and the warnings of the search.
    score : callable
        Scores the words of a step; a `bench.engines.ray_search.RaySearch` does it on a cluster.
    **settings

    Returns
    -------
    Selection
        The words in order, with the gain of each.

    Raises
    ------
    ConfigError, DataError
        If a setting is not allowed, or the data cannot be used.
    """
    if not isinstance(words, int) or isinstance(words, bool):
        raise ConfigError(
            f"words is {words!r}; it must be a whole number (auto and paper are for a fit)."
        )
    loaded = isinstance(backbone, Backbone)
    name = backbone.name if isinstance(backbone, Backbone) else backbone
    # Nothing is trained, so the number of words need not agree with epochs and interval.
    config = FitConfig(backbone=name, words=min(words, 1), **settings)
    dataset = read_dataset(data, config.strict, shots=config.shots)
    if not loaded:
        backbone = load_backbone(config.backbone, config.device, config.precision)
    assert isinstance(backbone, Backbone)
    choice = word_choice(config, pool or read_pool(config, backbone, reporter))
    choice.check(backbone, dataset.class_names, words)  # before anything is computed
    cache = Cache(reporter=reporter) if config.cache else None
    store = FeatureStore(backbone, cache)
    shots, _ = draw_shots(dataset, config.shots, config.seed, store, config.strict, reporter)
    for note in (*dataset.notes, *shots.notes):
        reporter.warn(note)
    selection = choice.choose(
        backbone, dataset.class_names, shots, words, cache, None, reporter, score=score
    )
    for note in selection.notes:
        reporter.warn(note)
    return selection
