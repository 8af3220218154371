"""select_words: the words that a prompt for some images would get, without training anything."""

from __future__ import annotations

from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.backbone.loading import load_backbone
from ipl.config import DATA, MACHINE, MODEL, WORDS, FitConfig, fit_settings, takes_settings
from ipl.datasets.readers import read_dataset
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, search_settings
from ipl.training.schedule import SEARCHED
from ipl.words.pool import Pool
from ipl.words.selection import Selection


@takes_settings(fit_settings(DATA, MODEL, WORDS, MACHINE))
def select_words(
    data: Any,
    words: int = 3,
    *,
    backbone: str | Backbone = "pocket",
    pool: Pool | None = None,
    reporter: Reporter = SILENT,
    **settings: Any,
) -> Selection:
    """Chooses words for a dataset, without training.

    They are the words that `PromptClassifier.fit` chooses with the same settings, for any learner.

    Parameters
    ----------
    data : str, Path or Dataset
        A folder, a CSV or JSONL file, or a Dataset.
    words : int, default 3
        How many words to choose, k.
    backbone : str or Backbone, default "pocket"
        pocket (bundled), a Hugging Face name, a model folder, or a loaded backbone.
    pool : Pool or None, default None
        The words to choose from. Default: those that `words_file` and `pool_part` give.
    reporter : Reporter
        Gets the progress and the warnings of the search.
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
    name = backbone.name if isinstance(backbone, Backbone) else backbone
    # Nothing is trained, so the number of words need not agree with epochs and interval.
    config = FitConfig(backbone=name, words=min(words, 1), **settings)
    dataset = read_dataset(data)
    if not isinstance(backbone, Backbone):
        backbone = load_backbone(config.backbone, config.device, config.precision)
    names = dataset.class_names
    pool = pool or read_pool(config, backbone.tokenizer, names, reporter)
    search = search_settings(config, pool)
    search.check(backbone, names, words)  # before anything is computed
    cache = Cache(reporter=reporter) if config.cache else None
    store = FeatureStore(backbone, cache)
    shots = draw_shots(dataset, config.shots, config.seed, store, reporter)
    for note in (*dataset.notes, *shots.notes):
        reporter.warn(note)
    searched = shots.at_most(SEARCHED, config.seed)
    selection = search.choose(backbone, names, searched, words, cache, reporter=reporter)
    for note in selection.notes:
        reporter.warn(note)
    return selection
