"""The fit: draws the shots, chooses the words, trains the vectors, measures the accuracy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import (
    LabelledFeatures,
    draw_shots,
    encode_items,
    hash_by_class,
)
from ipl.config import (
    AUTO,
    CHOSEN,
    EMPTY,
    GIVEN,
    MOST_WORDS,
    RANDOM,
    FitConfig,
    given_words,
)
from ipl.datasets.dataset import Dataset, read_alike
from ipl.display.formatting import several
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class
from ipl.prompts.layout import PromptLayout, Soft
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, IplError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import KIND, SECONDS_KEPT, Checkpoint
from ipl.training.comparison import WITHOUT_WORDS, compare_with_baselines
from ipl.training.history import TrainingHistory, TrainingStarted
from ipl.training.loop import train
from ipl.training.result import FitResult, Trial, identity_of
from ipl.training.views import View, make_views
from ipl.words.choice import WordChoice
from ipl.words.frequency import RandomWords
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.selection import Selection
from ipl.words.template import Template

PHOTO_START = "a photo of a"


def fit(
    config: FitConfig,
    dataset: Dataset,
    backbone: Backbone,
    *,
    pool: Pool | None = None,
    features: FeatureStore | None = None,
    compare: bool = False,
    reporter: Reporter = SILENT,
) -> FitResult:
    """Trains a prompt on up to `config.shots` images of each class.

    Parameters
    ----------
    config : FitConfig
        The settings of the fit. Its `backbone`, `device` and `precision` are those of `backbone`.
    dataset : Dataset
        The images that the shots are drawn from. Its test images are held out and scored, or,
        if it has none, the training images that were not drawn.
    backbone : Backbone
        The frozen towers.
    pool : Pool, optional
        The words to choose from. Default: those that the config names.
    features : FeatureStore, optional
        Keeps the features of images and texts and the crops of the shots, so that several fits can
        share them.
    compare : bool, default False
        Whether the same prompt is trained without words as well, to compare with; zero-shot and a
        linear probe are always compared with.
    reporter : Reporter
        Gets the progress and the warnings.

    Returns
    -------
    FitResult
        The trained learner, its accuracies, and how it was trained.

    Raises
    ------
    ConfigError, DataError
        If the config is not possible with the backbone or the dataset; this is checked before
        anything is computed.
    NotFiniteError
        If the loss is not finite.
    """
    names = dataset.class_names
    cache = Cache(reporter=reporter) if config.cache else None
    if cache is not None:
        cache.expire(KIND, SECONDS_KEPT)
    store = features or FeatureStore(backbone, cache)
    choice = word_choice(config, pool or read_pool(config, backbone, reporter))

    def check(k: int) -> None:  # fails before anything is computed
        new_learner(config, backbone, names, k)
        if config.searches:
            choice.check(backbone, names, k)
        if config.arm == RANDOM and (size := len(choice.candidates(backbone))) < 2 * k:
            raise ConfigError(
                f"words is {k}; the pool has {size} words, and the chosen words and as many "
                f"random ones are {2 * k}."
            )

    counts, limits = word_counts(config.words, config.hyperparameters, check)
    shots, undrawn = draw_shots(dataset, config.shots, config.seed, store, config.strict, reporter)
    image_hashes = hash_by_class(shots.items, len(names), store)
    notes = (*dataset.notes, *shots.notes, *limits, *_note_depth(config, backbone))
    notes += _note_interval(config)
    kind = learner_class(config.learner)
    views = make_views(config.views, kind, backbone, shots, config.seed, reporter, features)
    words, selection = _find_words(
        config, choice, backbone, names, shots, counts[-1], cache, features, reporter
    )
    trained_config = config
    if config.words == AUTO:
        slots = 0 if selection is None else len(selection.words)
        counts = (slots,)
        if not slots:  # the plain learner, as published
            trained_config = config.without_words()
    if config.arm != CHOSEN:  # the search told how many words, or how frequent
        selection = None

    def train_with(
        counts: Sequence[int], words: Sequence[str], name: str = "train"
    ) -> tuple[Learner, TrainingHistory, tuple[Trial, ...], tuple[str, ...]]:
        return train_best(
            lambda k: new_learner(trained_config, backbone, names, k),
            counts,
            words,
            shots,
            views,
            config.views,
            trained_config.hyperparameters,
            config.seed,
            reporter,
            cache,
            name,
            store,
        )

    learner, history, trials, keys = train_with(counts, words)
    if selection is not None:
        selection = selection.first(len(learner.words))
        notes += selection.notes
    held_out = encode_items(dataset.test or undrawn, "held-out", store, config.strict, reporter)
    comparison = None
    if held_out.items:
        others = []
        if compare and learner.words:
            empty, _, _, more = train_with((learner.layout.slots,), (), "train-without-words")
            keys += more
            predictions = empty.log_probabilities(features_for(empty, held_out, store))
            others.append((WITHOUT_WORDS, empty.layout.readable(()), predictions))
        comparison = compare_with_baselines(
            learner,
            learner.log_probabilities(features_for(learner, held_out, store)),
            shots,
            held_out,
            config,
            others,
        )
    result = FitResult(
        config=config,
        hyperparameters=trained_config.hyperparameters,
        prompt=learner.layout.readable(learner.words),
        words=learner.words,
        backbone=identity_of(backbone),
        preprocessing=backbone.preprocessing.as_dict(),
        classes=learner.prompts.class_names,
        trained_classes=learner.prompts.class_names,
        data=dataset.name,
        images=len(shots.items),
        train_accuracy=next(t.accuracy for t in trials if t.words == learner.layout.slots),
        comparison=comparison,
        trials=trials,
        history=history,
        selection=selection,
        image_hashes=image_hashes,
        alike=read_alike(learner.prompts.class_names),
        notes=(*notes, *held_out.notes),
        tensors=dict(learner.state_dict()),
        learner=learner,
        checkpoints=keys,
    )
    reporter.record_event(result)
    return result


def _find_words(
    config: FitConfig,
    choice: WordChoice,
    backbone: Backbone,
    names: Sequence[str],
    shots: LabelledFeatures,
    most: int,
    cache: Cache | None,
    features: FeatureStore | None,
    reporter: Reporter,
) -> tuple[tuple[str, ...], Selection | None]:
    """Returns the words of the prompt, and the search if there was one."""
    if config.arm == GIVEN:
        return given_words(config.words_given or ""), None
    if not config.searches:
        return (), None
    selection = choice.choose(
        *(backbone, names, shots, most, cache, features, reporter),
        stop_at_noise=config.words == AUTO,
    )
    words = selection.words
    if config.arm == RANDOM:
        words = _draw_words(config, choice.candidates(backbone), backbone, words)
    return () if config.arm == EMPTY else words, selection


def new_learner(
    config: FitConfig, backbone: Backbone, class_names: Sequence[str], words: int
) -> Learner:
    """Returns the untrained learner of a config, with `words` word slots."""
    kind, hyperparameters = learner_class(config.learner), config.hyperparameters
    layout = start_layout(kind.layout_for(words, hyperparameters.m), config.init)
    if config.words_given is not None:
        tokens = [backbone.tokenize(word) for word in given_words(config.words_given)]
        layout = layout.with_slot_sizes([len(ids) for ids in tokens])
    return kind(
        backbone,
        layout,
        class_names,
        seed=config.seed,
        placeholder=config.placeholder,
        depth=hyperparameters.depth,
        class_template=config.class_template,
    )


def start_layout(layout: PromptLayout, init: str) -> PromptLayout:
    """Returns a layout whose soft groups start as the setting `init` says.

    `photo` takes the last words of "a photo of a" for the group before the class name, as many as
    it has vectors, unless the learner already starts it from a text.
    """
    last = layout.groups[-1]
    if init == "published" or (init == "photo" and last.init is not None):
        return layout
    words = PHOTO_START.split()
    if init == "photo" and last.size > len(words):
        raise ConfigError(
            f"init is 'photo'; a group of {last.size} vectors cannot start from the "
            f"{len(words)} words of {PHOTO_START!r}: m must be {len(words)} or less."
        )
    start = " ".join(words[-last.size :]) if init == "photo" else None
    groups = [replace(group, init=None) for group in layout.groups[:-1]]
    remaining = iter([*groups, replace(last, init=start)])
    segments = (next(remaining) if isinstance(s, Soft) else s for s in layout.segments)
    return PromptLayout(tuple(segments))


def word_choice(config: FitConfig, pool: Pool | None) -> WordChoice:
    """Returns the WordChoice of a config; a pool of None is the bundled one."""
    return WordChoice(
        Objective(config.lambda_, config.preset, config.word_embedding),
        Template(config.template),
        config.search,
        config.memory,
        pool,
    )


def _draw_words(
    config: FitConfig, pool: Pool, backbone: Backbone, words: Sequence[str]
) -> tuple[str, ...]:
    """Returns random words as frequent as the chosen ones, other ones for each seed and draw."""
    source = RandomWords(pool, backbone.tokenize_words(pool.words))
    return source.draw(words, random.Random(f"seed {config.seed}, draw {config.random_words}"))


def read_pool(config: FitConfig, backbone: Backbone, reporter: Reporter = SILENT) -> Pool | None:
    """Returns the pool that a config names; None stands for the bundled one."""
    pool = None
    if config.words_file is not None:
        pool, dropped = Pool.from_file(config.words_file, backbone.tokenizer)
        for drop in dropped:
            reporter.warn(f"{config.words_file}: {drop.word!r} is left out: it is {drop.reason}.")
    return (pool or Pool.bundled()).without_names() if config.no_names else pool


def word_counts(
    words: int | str, hyperparameters: Hyperparameters, check: Callable[[int], None]
) -> tuple[Sequence[int], tuple[str, ...]]:
    """Returns each number of words to try, in order, and a note if fewer than usual are possible.

    `check` raises IplError for a number that is not possible; "auto" and "paper" then try fewer.
    """
    if isinstance(words, int):
        check(words)
        return (words,), ()
    most, notes = (
        min(MOST_WORDS, hyperparameters.epochs // hyperparameters.interval),
        tuple[str, ...](),
    )
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


def train_best(
    make: Callable[[int], Learner],
    counts: Sequence[int],
    words: Sequence[str],
    shots: LabelledFeatures,
    view: View,
    views: int | str,
    hyperparameters: Hyperparameters,
    seed: int = 1,
    reporter: Reporter = SILENT,
    cache: Cache | None = None,
    name: str = "train",
    store: FeatureStore | None = None,
) -> tuple[Learner, TrainingHistory, tuple[Trial, ...], tuple[str, ...]]:
    """Trains a learner with each number of words; returns the best, its history and all trials.

    The best has the highest accuracy on the training images, then the lowest loss, then the fewest
    words. With a cache, training that was interrupted resumes when the same call is made again. The
    last value returned are the keys of its checkpoints, for `remove_checkpoints`.
    """
    best: tuple[tuple[float, float], Learner, TrainingHistory] | None = None
    trials, checkpoints = [], []
    for k in counts:
        learner = make(k)
        checkpoint = Checkpoint.of(cache, learner, words[:k], shots, views, hyperparameters, seed)
        checkpoints.append(checkpoint)
        reporter.record_event(TrainingStarted(f"{name}-{k}-words" if len(counts) > 1 else name))
        history = train(
            learner, view, len(shots.items), words[:k], hyperparameters, seed, reporter, checkpoint
        )
        with torch.no_grad():
            logits = learner.logits(features_for(learner, shots, store)).cpu().double()
        train_accuracy = float((logits.argmax(1) == shots.labels).double().mean())
        trial = Trial(k, train_accuracy, float(cross_entropy(logits, shots.labels)))
        trials.append(trial)
        if len(counts) > 1:
            title = "1 word" if k == 1 else f"{k} words"
            reporter.say(f"{title}: accuracy {100 * trial.accuracy:.1f} %, loss {trial.loss:.4f}")
        rank = (trial.accuracy, -trial.loss)
        if best is None or rank > best[0]:
            best = (rank, learner, history)
    assert best is not None
    keys = tuple(checkpoint.key for checkpoint in checkpoints if checkpoint.is_written)
    return best[1], best[2], tuple(trials), keys


def features_for(
    learner: Learner, images: LabelledFeatures, store: FeatureStore | None = None
) -> Tensor:
    """Returns the features (items, dim) of images as the learner encodes them.

    Images whose centre crops the store has kept are not opened again.
    """
    if not learner.prompts_images:
        return images.features
    crops = None if store is None else store.crops
    return learner.encode_images([item.path for item in images.items], crops=crops).features


@torch.no_grad()
def accuracy(
    learner: Learner,
    images: LabelledFeatures,
    labels: Tensor | None = None,
    store: FeatureStore | None = None,
) -> float:
    """Returns the share of images that a learner classifies as their labels say."""
    labels = images.labels if labels is None else labels
    features = features_for(learner, images, store).to(learner.backbone.device)
    return float((learner.logits(features).argmax(1).cpu() == labels).double().mean())


def _note_interval(config: FitConfig) -> tuple[str, ...]:
    """Returns a note if the interval was shortened because there are few epochs."""
    if config.words in (0, 1) or config.arm == EMPTY:  # no word enters later
        return ()
    words = config.words if isinstance(config.words, int) else 1
    published = learner_class(config.learner).hyperparameters(words, config.protocol).interval
    interval = config.hyperparameters.interval
    if config.interval is not None or interval == published:
        return ()
    return (
        f"interval is {interval}, not the published {published}: with {config.epochs} epochs, a "
        f"word enters every {'epoch' if interval == 1 else f'{interval} epochs'}.",
    )


def _note_depth(config: FitConfig, backbone: Backbone) -> tuple[str, ...]:
    """Returns a note if the depth is larger than the number of layers."""
    layers = (len(backbone.text_layers), len(backbone.image_layers))
    # The published depth is reduced to the number of layers without a note.
    published = learner_class(config.learner).hyperparameters(1, config.protocol).depth
    if (config.depth or 0) <= max(*layers, published):
        return ()
    return (
        f"depth is {config.depth}; the towers have {layers[0]} (text) and {layers[1]} (image) "
        "layers, and all of them get vectors.",
    )
