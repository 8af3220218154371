"""Words scored where they will stand: in prompts whose vectors were trained, on unseen images.

The paper scores words in a sentence that the finished prompt does not contain. Here the layout of
the finished prompt is trained on a part of the shots, and words are scored in its next empty slot
on the part that the vectors have not seen, where the loss still says something.

"prompt" parts the shots of every class in two: vectors trained on each half score words on the
other. Word q is chosen after q intervals and then stays in its slot while training goes on.
"unseen" parts the classes in two: vectors trained with empty slots on each half of the classes
score words in prompts for the other half's names. All words are chosen after that training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import PROMPT, UNSEEN, FitConfig
from ipl.learners.learner import Learner
from ipl.learners.prompt_scorer import PromptScorer, ScoredPrompts
from ipl.support.cache import Cache
from ipl.support.errors import DataError
from ipl.support.progress import Advance, Reporter
from ipl.training.checkpoint import Checkpoint, TrainingState, training_key
from ipl.training.loop import train
from ipl.training.views import PartOfViews, View

UNSEEN_EPOCHS = 30
MakeLearner = Callable[[Sequence[str], int], Learner]  # of class names and a number of slots


@dataclass(frozen=True)
class Part:
    """A part of the shots and classes to train on, and another to score words on."""

    train_images: Tensor
    train_classes: tuple[int, ...]
    test_images: Tensor
    test_classes: tuple[int, ...]


def split_shots(labels: Tensor, classes: int) -> tuple[Part, Part]:
    """Returns two parts: each trains on every other image of a class and scores on the rest.

    Raises DataError unless some class has two images.
    """
    order = torch.zeros_like(labels)
    for label in range(classes):
        own = labels == label
        order[own] = torch.arange(int(own.sum()))
    even = torch.nonzero(order % 2 == 0)[:, 0]
    odd = torch.nonzero(order % 2 == 1)[:, 0]
    if not len(odd):
        raise DataError(
            "Words can be scored in the prompt only with two or more training images per class: "
            "it is trained on some of them, and words are scored on the others."
        )
    names = tuple(range(classes))
    return Part(even, names, odd, names), Part(odd, names, even, names)


def split_classes(labels: Tensor, classes: int) -> tuple[Part, Part]:
    """Returns two parts: each trains on every other class and scores on the other classes.

    Raises DataError if there are fewer than four classes.
    """
    if classes < 4:
        raise DataError(
            f"Words can be scored on unseen classes only with four or more classes, not {classes}: "
            "one half is trained on, and words are scored on the other."
        )
    halves = [tuple(range(start, classes, 2)) for start in (0, 1)]
    images = [torch.nonzero(labels % 2 == start)[:, 0] for start in (0, 1)]
    return (
        Part(images[0], halves[0], images[1], halves[1]),
        Part(images[1], halves[1], images[0], halves[0]),
    )


class JointSteps:
    """Gives a greedy search the scorer of each step, and trains the prompts in between.

    Parameters
    ----------
    config : FitConfig
        The settings of the fit.
    class_names : sequence of str
        The classes of the shots.
    make : callable
        Returns an untrained learner for class names and a number of slots.
    shots : LabelledFeatures
        The training images.
    views : View
        The views of the training images.
    slots : int or None
        The number of slots of the finished prompt; None if the search decides how many words it
        takes. A word is then scored in the last slot of a prompt that ends with it.
    cache : Cache or None
        Keeps the state of the trainings, so that an interrupted fit resumes.
    reporter : Reporter
        Gets the progress.

    Attributes
    ----------
    checkpoints : list of str
        The keys of the trainings in the cache.
    """

    def __init__(
        self,
        config: FitConfig,
        class_names: Sequence[str],
        make: MakeLearner,
        shots: LabelledFeatures,
        views: View,
        slots: int | None,
        cache: Cache | None,
        reporter: Reporter,
    ) -> None:
        self.config, self.class_names, self.make = config, tuple(class_names), make
        self.shots, self.views, self.slots, self.cache = shots, views, slots, cache
        self.reporter = _TrainingReporter(reporter)
        split = split_shots if config.select_in == PROMPT else split_classes
        self.parts = split(shots.labels, len(class_names))
        self.checkpoints: list[str] = []
        self._states: dict[int, tuple[int, TrainingState | None]] = {}
        self._trained: dict[int, tuple[int, Learner]] = {}
        self._hyperparameters = config.hyperparameters
        if config.select_in == UNSEEN:
            epochs = min(UNSEEN_EPOCHS, self._hyperparameters.epochs)
            self._hyperparameters = replace(self._hyperparameters, epochs=epochs, average_mean=None)

    @property
    def backbone(self) -> Backbone:
        """Returns the frozen towers."""
        return self._sample.backbone

    @property
    def _sample(self) -> Learner:
        """Returns an untrained learner with all slots."""
        return self.make(self.class_names, self.slots or 1)

    @property
    def question(self) -> dict[str, Any]:
        """Returns what the losses depend on beside the backbone, for the key of a cache."""
        config = self.config
        training = training_key(
            self._sample, (), self.shots, config.views, self._hyperparameters, config.seed
        )
        return {
            "training": training,
            "select_in": config.select_in,
            "slots": self.slots,
            "classes": list(self.class_names),
            "labels": self.shots.labels.tolist(),
        }

    @property
    def facts(self) -> dict[str, Any]:
        """Returns what a selection says about how its words were scored."""
        return {"template": self.config.template, "select_in": self.config.select_in}

    def check_room(self, k: int) -> None:
        """Raises ConfigError if a prompt with k words is too long for the text tower."""
        self.make(self.class_names, k)

    def for_step(self, words: tuple[str, ...]) -> PromptScorer:
        """Returns the scorer of the step after these words, when the prompts have been trained."""
        slots = self.slots or len(words) + 1
        title = f"Training for word {len(words) + 1}"
        scored = []
        for number, part in enumerate(self.parts):
            self.reporter.title = f"{title}, half {number + 1} of 2"
            if self.config.select_in == PROMPT:
                learner = self._train_with(words, slots, number)
            else:
                learner = self._train_empty(slots, number).rebuilt(
                    class_names=[self.class_names[index] for index in part.test_classes],
                    words=words,
                )
            scored.append(self._scored(learner, part))
        return PromptScorer(scored, self.config.memory)

    def _train_with(self, words: tuple[str, ...], slots: int, number: int) -> Learner:
        """Returns a learner that the words entered one by one, ready for the next."""
        interval = self._hyperparameters.interval
        before, state = self._states.get(number, (0, None))
        start = state if before == slots else None  # goes on where the last step ended
        learner, latest = self._train(words, slots, number, start, (len(words) + 1) * interval)
        self._states[number] = slots, latest
        return learner

    def _train_empty(self, slots: int, number: int) -> Learner:
        """Returns a learner whose slots stayed empty; the same at every step of one layout."""
        if self._trained.get(number, (0, None))[0] != slots:
            learner, _ = self._train((), slots, number, None, self._hyperparameters.epochs)
            self._trained[number] = slots, learner
        return self._trained[number][1]

    def _train(
        self,
        words: tuple[str, ...],
        slots: int,
        number: int,
        start: TrainingState | None,
        stop: int,
    ) -> tuple[Learner, TrainingState | None]:
        """Returns a learner trained on a part for `stop` epochs, and the state it ended in."""
        config, part = self.config, self.parts[number]
        learner = self.make([self.class_names[index] for index in part.train_classes], slots)
        images = part.train_images
        labels = _renumbered(self.shots.labels[images], part.train_classes)
        shots = replace(
            self.shots,
            items=tuple(self.shots.items[index] for index in images.tolist()),
            features=self.shots.features[images.to(self.shots.features.device)],
        )
        key = ""
        if self.cache is not None:
            key = training_key(
                *(learner, words, shots, config.views, self._hyperparameters, config.seed),
                part=f"{config.select_in} {number}",
                stop=stop,
            )
            self.checkpoints.append(key)
        checkpoint = Checkpoint(self.cache, key, start, keep=True)
        train(
            learner,
            PartOfViews(self.views, images, labels, learner.backbone.device),
            len(images),
            words,
            self._hyperparameters,
            config.seed,
            self.reporter,
            checkpoint,
            stop=stop,
            delay=self._hyperparameters.interval,
        )
        return learner, checkpoint.latest

    def _scored(self, learner: Learner, part: Part) -> ScoredPrompts:
        """Returns a learner's prompts with the images that its vectors have not seen."""
        images = part.test_images
        if learner.prompts_images:
            paths = [self.shots.items[index].path for index in images.tolist()]
            features = learner.encode_images(paths).features
        else:
            features = self.shots.features[images.to(self.shots.features.device)]
        labels = _renumbered(self.shots.labels[images], part.test_classes)
        return ScoredPrompts(learner, features, labels)


def _renumbered(labels: Tensor, classes: Sequence[int]) -> Tensor:
    """Returns labels as indices into a list of classes."""
    index = torch.full((max(classes) + 1,), -1)
    index[list(classes)] = torch.arange(len(classes))
    return index[labels]


class _TrainingReporter(Reporter):
    """Shows the progress of a training under a title, and none of its events."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter.quiet, reporter.console)
        self.reporter, self.title = reporter, ""

    def say(self, message: str) -> None:
        """Shows one line, unless quiet."""
        self.reporter.say(message)

    def warn(self, message: str) -> None:
        """Shows one line as a warning, even when quiet."""
        self.reporter.warn(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Shows the progress of one piece of work."""
        with self.reporter.task(self.title or title, total) as advance:
            yield advance
