"""A learner trained with k words; or with each k that may be, of which the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.shots import LabelledFeatures
from ipl.learners.learner import Learner
from ipl.learners.recipe import Recipe
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, IplError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import Checkpoint
from ipl.training.history import TrainingRecord
from ipl.training.loop import train
from ipl.training.schedule import word_epochs
from ipl.training.views import make_views

AUTO = "auto"  # as a number of words: the one from 1 to 6 that trains best
MOST_WORDS = 6


@dataclass(frozen=True)
class Trial:
    """How k words did on the training images."""

    words: int
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Fitted:
    """A trained learner, its record, and every number of words that was tried on the way."""

    learner: Learner
    record: TrainingRecord
    trials: tuple[Trial, ...]


def check_words(words: int | str, recipe: Recipe) -> None:
    """Raises ConfigError unless words is auto or a number that the recipe has epochs for."""
    if words == AUTO:
        most_words(recipe)
    elif isinstance(words, str):
        raise ConfigError(f"words is {words!r}; allowed are 0, a number, or {AUTO}.")
    elif words < 0:
        raise ConfigError(f"words is {words}; it must be 0 or more.")
    else:
        word_epochs(words, recipe.interval, recipe.epochs)


def most_words(recipe: Recipe) -> int:
    """Returns the largest number of words that auto tries: up to 6, as many as the epochs allow."""
    if recipe.interval > recipe.epochs:
        word_epochs(1, recipe.interval, recipe.epochs)  # says what is wrong
    return min(MOST_WORDS, recipe.epochs // recipe.interval)


def numbers_to_try(
    words: int | str, recipe: Recipe, check: Callable[[int], None]
) -> tuple[Sequence[int], tuple[str, ...]]:
    """Returns each k to train with, fewest first, and a note if auto has less than its due.

    `check` raises IplError for a k that cannot be: auto does with fewer words, down to one.
    """
    if words != AUTO:
        check(int(words))
        return (int(words),), ()
    most, notes = most_words(recipe), tuple[str, ...]()
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


def features_for(learner: Learner, seen: LabelledFeatures) -> Tensor:
    """Returns the features (items, dim) of images as the learner sees them."""
    if not learner.prompts_images:
        return seen.features
    return learner.encode_images([item.path for item in seen.items]).features


def fit_learner(
    make: Callable[[int], Learner],
    numbers: Sequence[int],
    words: Sequence[str],
    shots: LabelledFeatures,
    views: int | str,
    recipe: Recipe,
    seed: int = 1,
    reporter: Reporter = SILENT,
    cache: Cache | None = None,
) -> Fitted:
    """Returns the best of the learners trained with the first k words, k among `numbers`.

    Best is by training images alone: accuracy, then loss, then fewer words. If it is stopped,
    the same call goes on where the `cache` says it was.
    """
    first = make(numbers[0])
    looks = make_views(views, type(first), first.backbone, shots, seed, reporter)
    best: tuple[tuple[float, float], Learner, TrainingRecord] | None = None
    trials, bookmarks = [], []
    for k in numbers:
        learner = make(k)
        bookmark = Checkpoint.of(cache, learner, words[:k], shots, views, recipe, seed)
        bookmarks.append(bookmark)
        record = train(
            learner, looks, len(shots.items), words[:k], recipe, seed, reporter, bookmark
        )
        with torch.no_grad():
            logits = learner.logits(features_for(learner, shots)).cpu().double()
        accuracy = float((logits.argmax(1) == shots.labels).double().mean())
        trial = Trial(k, accuracy, float(cross_entropy(logits, shots.labels)))
        trials.append(trial)
        if len(numbers) > 1:
            title = "1 word" if k == 1 else f"{k} words"
            reporter.say(f"{title}: accuracy {100 * accuracy:.1f} %, loss {trial.loss:.4f}")
        if best is None or (accuracy, -trial.loss) > best[0]:
            best = ((accuracy, -trial.loss), learner, record)
    assert best is not None
    for bookmark in bookmarks:
        bookmark.remove()
    return Fitted(best[1], best[2], tuple(trials))
