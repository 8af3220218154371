"""From a dataset to a trained prompt: shots, words, vectors, accuracies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.shots import LabelledFeatures, draw_shots, encode_items
from ipl.config import AUTO, FitConfig
from ipl.datasets.dataset import Dataset, read_alike
from ipl.learners.learner import Learner
from ipl.learners.recipe import Recipe
from ipl.learners.registry import learner_class
from ipl.support.cache import Cache
from ipl.support.errors import IplError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import Checkpoint
from ipl.training.loop import train
from ipl.training.result import FitResult, TrainingHistory, Trial, identity_of
from ipl.training.views import make_views
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.select import WordChoice
from ipl.words.template import Template

MOST_WORDS = 6  # that words="auto" tries


def fit(
    config: FitConfig,
    dataset: Dataset,
    backbone: Backbone,
    *,
    pool: Pool | None = None,
    features: FeatureStore | None = None,
    reporter: Reporter = SILENT,
) -> FitResult:
    """Trains a prompt on up to `config.shots` images of each class.

    Parameters
    ----------
    config : FitConfig
        What to do; its `backbone` and `device` have been loaded by the caller.
    dataset : Dataset
        Where the shots are drawn from. Its test part is held out and scored, or what is left of
        its training part.
    backbone : Backbone
        The frozen towers.
    pool : Pool, optional
        The words to choose from, in place of those that the config names.
    features : FeatureStore, optional
        Fits that share a store share the work of the towers.
    reporter : Reporter
        Hears how far it has come.

    Returns
    -------
    FitResult
        The trained learner, with all that is known of it.

    Raises
    ------
    ConfigError, DataError
        If the config does not fit the backbone or the dataset; before anything is computed.
    NotFiniteError
        If the loss overflows.
    """
    recipe, names = config.recipe, dataset.class_names
    cache = Cache(reporter=reporter) if config.cache else None
    store = features or FeatureStore(backbone, cache)
    choice = word_choice(config, pool or read_pool(config, backbone, reporter))

    def make(k: int) -> Learner:
        return new_learner(config, backbone, names, k)

    def check(k: int) -> None:  # what cannot be is said before anything is computed
        make(k)
        choice.check(backbone, names, k)

    counts, limits = word_counts(config.words, recipe, check)
    shots, rest = draw_shots(dataset, config.shots, config.seed, store, config.strict, reporter)
    notes = (*dataset.notes, *shots.notes, *limits, *_note_depth(config, backbone))
    selection = None
    if k := counts[-1]:
        selection = choice.choose(backbone, names, shots, k, cache, features, reporter)
    words = selection.words if selection else ()
    learner, history, trials = train_best(
        make, counts, words, shots, config.views, recipe, config.seed, reporter, cache
    )
    if selection is not None:
        selection = selection.first(len(learner.words))
        notes += selection.notes
    held_out = encode_items(dataset.test or rest, "held-out", store, config.strict, reporter)
    return FitResult(
        config=config,
        recipe=recipe,
        prompt=learner.layout.readable(learner.words),
        words=learner.words,
        backbone=identity_of(backbone),
        preprocessing=backbone.preprocessing.as_dict(),
        classes=learner.prompts.class_names,
        trained_classes=learner.prompts.class_names,
        data=dataset.name,
        images=len(shots.items),
        train_accuracy=next(t.accuracy for t in trials if t.words == len(learner.words)),
        held_out_accuracy=accuracy(learner, held_out) if held_out.items else None,
        held_out_images=len(held_out.items),
        trials=trials,
        history=history,
        selection=selection,
        alike=read_alike(learner.prompts.class_names),
        notes=(*notes, *held_out.notes),
        tensors=dict(learner.state_dict()),
        learner=learner,
    )


def new_learner(
    config: FitConfig, backbone: Backbone, class_names: Sequence[str], words: int
) -> Learner:
    """Returns the untrained learner of a config with this many word slots."""
    kind, recipe = learner_class(config.learner), config.recipe
    return kind(
        backbone,
        kind.layout_for(words, recipe.m),
        class_names,
        seed=config.seed,
        placeholder=config.placeholder,
        depth=recipe.depth,
        class_template=config.class_template,
    )


def word_choice(config: FitConfig, pool: Pool | None) -> WordChoice:
    """Returns how a config chooses words from a pool; None is the bundled one."""
    return WordChoice(
        Objective(config.lambda_, config.preset, config.word_embedding),
        Template(config.template),
        Search(config.search, config.shortlist),
        config.memory,
        pool,
    )


def read_pool(config: FitConfig, backbone: Backbone, reporter: Reporter = SILENT) -> Pool | None:
    """Returns the pool that a config names; None is the bundled one, names included."""
    pool = None
    if config.words_file is not None:
        pool, dropped = Pool.from_file(config.words_file, backbone.tokenizer)
        for drop in dropped:
            reporter.warn(f"{config.words_file}: {drop.word!r} is left out, it is {drop.reason}.")
    return (pool or Pool.bundled()).without_names() if config.no_names else pool


def word_counts(
    words: int | str, recipe: Recipe, check: Callable[[int], None]
) -> tuple[Sequence[int], tuple[str, ...]]:
    """Returns each k to train with, fewest first, and a note if auto cannot try all it should.

    `check` raises IplError for a k that cannot be: auto then tries fewer words, down to one.
    """
    if words != AUTO:
        check(int(words))
        return (int(words),), ()
    most, notes = min(MOST_WORDS, recipe.epochs // recipe.interval), tuple[str, ...]()
    if most < MOST_WORDS:
        notes = (
            f"words is {AUTO}; no more than {most} can be tried: epochs ({recipe.epochs}) leave "
            f"room for so many intervals of {recipe.interval}.",
        )
    while True:
        try:
            check(most)
            return range(1, most + 1), notes
        except IplError as error:
            if most == 1:
                raise
            most -= 1
            notes = (f"words is {AUTO}; no more than {most} can be tried: {error}",)


def train_best(
    make: Callable[[int], Learner],
    counts: Sequence[int],
    words: Sequence[str],
    shots: LabelledFeatures,
    views: int | str,
    recipe: Recipe,
    seed: int = 1,
    reporter: Reporter = SILENT,
    cache: Cache | None = None,
) -> tuple[Learner, TrainingHistory, tuple[Trial, ...]]:
    """Returns the best of the learners trained with the first k words, its history, all trials.

    Best is by the training images alone: accuracy, then loss, then fewer words. If it is stopped,
    the same call resumes from what the `cache` holds.
    """
    first = make(counts[0])
    view = make_views(views, type(first), first.backbone, shots, seed, reporter)
    best: tuple[tuple[float, float], Learner, TrainingHistory] | None = None
    trials, checkpoints = [], []
    for k in counts:
        learner = make(k)
        checkpoint = Checkpoint.of(cache, learner, words[:k], shots, views, recipe, seed)
        checkpoints.append(checkpoint)
        history = train(
            learner, view, len(shots.items), words[:k], recipe, seed, reporter, checkpoint
        )
        with torch.no_grad():
            logits = learner.logits(features_for(learner, shots)).cpu().double()
        share = float((logits.argmax(1) == shots.labels).double().mean())
        trial = Trial(k, share, float(cross_entropy(logits, shots.labels)))
        trials.append(trial)
        if len(counts) > 1:
            title = "1 word" if k == 1 else f"{k} words"
            reporter.say(f"{title}: accuracy {100 * share:.1f} %, loss {trial.loss:.4f}")
        if best is None or (share, -trial.loss) > best[0]:
            best = ((share, -trial.loss), learner, history)
    assert best is not None
    for checkpoint in checkpoints:
        checkpoint.remove()
    return best[1], best[2], tuple(trials)


def features_for(learner: Learner, images: LabelledFeatures) -> Tensor:
    """Returns the features (items, dim) of images as the learner encodes them."""
    if not learner.prompts_images:
        return images.features
    return learner.encode_images([item.path for item in images.items]).features


@torch.no_grad()
def accuracy(learner: Learner, images: LabelledFeatures, labels: Tensor | None = None) -> float:
    """Returns the share of images that a learner classifies as their labels, or these, say."""
    labels = images.labels if labels is None else labels
    features = features_for(learner, images).to(learner.backbone.device)
    return float((learner.logits(features).argmax(1).cpu() == labels).double().mean())


def _note_depth(config: FitConfig, backbone: Backbone) -> tuple[str, ...]:
    """Returns a note if a depth was asked for that the towers do not have."""
    layers = (len(backbone.text_layers), len(backbone.image_layers))
    # The published depth is cut to the towers without a word, as it always was.
    published = learner_class(config.learner).recipe(1, config.protocol).depth
    if (config.depth or 0) <= max(*layers, published):
        return ()
    return (
        f"depth is {config.depth}; the towers have {layers[0]} (text) and {layers[1]} (image) "
        "layers, and all of them get vectors.",
    )
