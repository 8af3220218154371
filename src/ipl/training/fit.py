"""The fit: draws the images, chooses the words, trains the vectors, measures the accuracy."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import (
    LabelledFeatures,
    draw_shots,
    encode_items,
    hash_by_class,
)
from ipl.config import AUTO, CHOSEN, GIVEN, MOST_WORDS, RANDOM, FitConfig, given_words
from ipl.datasets.dataset import Dataset, read_alike
from ipl.display.formatting import several
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import learner_class
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, IplError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import KIND, SECONDS_KEPT
from ipl.training.comparison import WITHOUT_WORDS, compare_with_baselines
from ipl.training.head import fit_head
from ipl.training.result import FitResult, identity_of
from ipl.training.schedule import ENOUGH, SEARCHED, limit_effort
from ipl.training.trainer import Trainer, new_learner
from ipl.training.views import make_views
from ipl.training.words_matter import MOST_REPLACED, replace_words
from ipl.words.lexicon import Tokenizer
from ipl.words.pool import Pool
from ipl.words.search import SearchSettings
from ipl.words.template import Template


def fit(
    config: FitConfig,
    dataset: Dataset,
    backbone: Backbone,
    *,
    pool: Pool | None = None,
    store: FeatureStore | None = None,
    compare: bool = False,
    reporter: Reporter = SILENT,
) -> FitResult:
    """Train a prompt on images of a dataset, and compare it with its baselines on its test images.

    Whether the config is possible with the backbone and the dataset is checked before anything is
    computed. Several fits can share a store. With `compare`, the same prompt is trained without
    words as well; zero-shot and linear probes are always compared with.
    """
    cache = Cache(reporter=reporter) if config.cache else None
    if cache is not None:
        cache.expire(KIND, SECONDS_KEPT)
    store = store or FeatureStore(backbone, cache, text_bytes=0)  # no other fit needs its texts
    names, kind = dataset.class_names, learner_class(config.learner)
    given, config = config, limit_effort(config, _training_counts(dataset, config.shots))
    search = search_settings(config, pool or read_pool(config, backbone.tokenizer, names, reporter))

    def check(k: int) -> None:  # fails before anything is computed
        new_learner(config, backbone, names, k)
        if config.searches:
            search.check(backbone, names, k)
        if config.arm == RANDOM and (size := len(search.candidates(backbone))) < 2 * k:
            raise ConfigError(
                f"words is {k}; the pool has {size} words, and the chosen words and as many "
                f"random ones are {2 * k}."
            )

    counts, limits = word_counts(config.words, config.hyperparameters, check)

    # Data
    shots = draw_shots(dataset, config.shots, config.seed, store, reporter)
    searched = shots.at_most(SEARCHED, config.seed)
    _say_effort(given, config, shots, searched, reporter)
    notes = (*dataset.notes, *shots.notes, *limits)
    views = make_views(config.views, kind, backbone, shots, config.seed, reporter, store)

    # Words
    words, selection = tuple[str, ...](), None
    if config.arm == GIVEN:
        words = given_words(config.words_given or "")
    elif config.searches:
        selection = search.choose(
            backbone,
            names,
            searched,
            counts[-1],
            cache,
            store,
            reporter,
            stop_at_noise=config.words == AUTO,
        )
        if config.words == AUTO:
            counts = (len(selection.words),)
        if config.arm == CHOSEN:
            words = selection.words
        else:  # the search told how many words, or how frequent
            if config.arm == RANDOM:  # others for each seed and draw
                stream = random.Random(f"seed {config.seed}, draw {config.random_words}")
                words = search.candidates(backbone).draw(selection.words, stream)
            selection = None

    # Training
    if config.words == AUTO and counts == (0,):
        config = config.without_words()  # the plain learner
    trainer = Trainer(config, backbone, names, shots, views, store, cache, reporter)
    best, trials = trainer.train_best(counts, words)
    learner = best.learner
    if selection is not None:  # only as many of its words as did best
        selection = selection.first(len(learner.words))
        notes += selection.notes if learner.words else ()  # then `about_words` says why

    # Head
    head = probes = None
    if config.head and min(shots.labels.bincount(minlength=len(names))) == 1:
        notes += ("No head was fitted, because a class has a single training image.",)
    elif config.head:
        reporter.say("Fitting the linear head for these classes.")
        head, fitted = fit_head(trainer, learner)
        probes = None if learner.prompts_images else fitted  # of its own features

    # Comparison
    held_out = encode_items(dataset.test, "held-out", store, reporter)
    comparison = replaced = None
    if held_out.items:
        others = []
        if compare and learner.words:
            empty = trainer.train(learner.layout.slots, (), "train-without-words").learner
            predictions = empty.log_probabilities(empty.features_of(held_out, store))
            others.append((WITHOUT_WORDS, empty.layout.readable(()), predictions))
        features = learner.features_of(held_out, store)
        with torch.no_grad():
            predictions = learner.logits(features)
        with_head = None if head is None else (head, head.logits(features, predictions))
        comparison = compare_with_baselines(
            learner, predictions, shots, held_out, config, others, with_head, probes
        )
        if learner.words and learner.fixed_texts and len(names) <= MOST_REPLACED:
            candidates = search.candidates(backbone)
            replaced = replace_words(learner, features, held_out.labels, candidates)

    # Result
    result = FitResult(
        config=given,
        hyperparameters=config.hyperparameters,
        prompt=learner.layout.readable(learner.words),
        words=learner.words,
        backbone=identity_of(backbone),
        preprocessing=backbone.preprocessing.as_dict(),
        classes=learner.prompts.class_names,
        trained_classes=learner.prompts.class_names,
        data=dataset.name,
        images=len(shots.items),
        threads=torch.get_num_threads(),
        train_accuracy=best.trial.accuracy,
        comparison=comparison,
        replaced_words=replaced,
        trials=trials,
        history=best.history,
        selection=selection,
        image_hashes=hash_by_class(shots.items, len(names), store),
        alike=read_alike(learner.prompts.class_names),
        notes=(*notes, *held_out.notes),
        tensors=dict(learner.state_dict()),
        learner=learner,
        head=head,
        checkpoints=tuple(trainer.checkpoints),
    )
    reporter.record_event(result)
    return result


# -- words ----------------------------------------------------------------------------------------


def search_settings(config: FitConfig, pool: Pool | None) -> SearchSettings:
    """How a config chooses words."""
    template = Template(config.template)
    return SearchSettings(config.objective, template, config.search, pool)


def read_pool(
    config: FitConfig,
    tokenizer: Tokenizer,
    class_names: Sequence[str] = (),
    reporter: Reporter = SILENT,
) -> Pool:
    """The pool that a config names."""
    pool = Pool.bundled()
    if config.words_file is not None:
        pool, dropped = Pool.from_file(config.words_file, tokenizer)
        for word, reason in dropped.items():
            reporter.warn(f"{config.words_file}: {word!r} is left out: it is {reason}.")
    return pool.part(config.pool_part, class_names)


def word_counts(
    words: int | str, hyperparameters: Hyperparameters, check: Callable[[int], None]
) -> tuple[Sequence[int], tuple[str, ...]]:
    """Each number of words to try, in order, and a note if fewer than usual are possible.

    `check` raises IplError for a number that is not possible; "auto" and "paper" then try fewer.
    """
    if isinstance(words, int):
        check(words)
        return (words,), ()
    notes: tuple[str, ...] = ()
    most = min(MOST_WORDS, hyperparameters.epochs // hyperparameters.interval)
    if most < MOST_WORDS:
        notes = (
            f"words is {words}; no more than {most} can be tried: "
            f"{hyperparameters.epochs} epochs have room for "
            f"{several(most, 'interval')} of {hyperparameters.interval}.",
        )
    while True:
        try:
            check(most)
            return range(1, most + 1), notes
        except IplError as error:
            if most == 1:
                raise
            most -= 1
            notes = (f"words is {words}; no more than {most} can be tried: {error}",)


# -- images ---------------------------------------------------------------------------------------


def _training_counts(dataset: Dataset, shots: int | None) -> list[int]:
    """How many images of each class a fit trains on, if all can be read."""
    counts = Counter(item.label for item in dataset.train)
    return [count if shots is None else min(count, shots) for count in counts.values()]


def _say_effort(
    given: FitConfig,
    limited: FitConfig,
    shots: LabelledFeatures,
    searched: LabelledFeatures,
    reporter: Reporter,
) -> None:
    """Say which parts of the fit do not use all of many images."""
    parts = []
    if given.searches and len(searched.items) < len(shots.items):
        parts.append(f"words are chosen with {SEARCHED} of each class at most")
    epochs, usual = limited.hyperparameters.epochs, given.hyperparameters.epochs
    if epochs < usual:
        parts.append(
            f"{several(epochs, 'epoch')} instead of {usual} make as many steps as {ENOUGH} of each "
            "class would"
        )
    if limited.views != given.views:
        parts.append(f"{several(int(limited.views), 'crop')} of each instead of {given.views}")
    if parts:
        reporter.say(f"{several(len(shots.items), 'training image')}: {'; '.join(parts)}.")
