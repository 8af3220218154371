"""Trainer: what the trainings of one fit share, and one training after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import FitConfig, given_words
from ipl.display.formatting import several
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class
from ipl.support.cache import Cache
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import Checkpoint, training_key
from ipl.training.history import TrainingHistory, TrainingStarted
from ipl.training.loop import train
from ipl.training.result import Trial
from ipl.training.views import View


class Trained(NamedTuple):
    """A trained learner, its epochs, and how well it does on its own images."""

    learner: Learner
    history: TrainingHistory
    trial: Trial


@dataclass
class Trainer:
    """What the trainings of one fit share; with a cache, one that was interrupted resumes."""

    config: FitConfig
    backbone: Backbone
    class_names: Sequence[str]
    shots: LabelledFeatures
    views: View
    store: FeatureStore | None = None
    cache: Cache | None = None
    reporter: Reporter = SILENT
    checkpoints: list[str] = field(default_factory=list)  # the keys of those in the cache

    def train(self, slots: int, words: Sequence[str], name: str = "train") -> Trained:
        """Train a new learner with so many slots, into which these words enter."""
        config, hyperparameters = self.config, self.config.hyperparameters
        learner = new_learner(config, self.backbone, self.class_names, slots)
        checkpoint = None
        if self.cache is not None:
            key = training_key(
                learner, words, self.shots, config.views, hyperparameters, config.seed
            )
            checkpoint = Checkpoint(self.cache, key)
        self.reporter.record_event(TrainingStarted(name))
        which = name.removeprefix("train").replace("-", " ").strip()  # such as "fold 1"
        history = train(
            learner,
            self.views,
            len(self.shots.items),
            words,
            hyperparameters,
            config.seed,
            self.reporter,
            checkpoint,
            f"Training ({which})" if which else "Training",
        )
        if checkpoint is not None and checkpoint.is_written:
            self.checkpoints.append(checkpoint.key)
        with torch.no_grad():
            features = learner.features_of(self.shots, self.store)
            logits = learner.logits(features).cpu().double()
        accuracy = float((logits.argmax(1) == self.shots.labels).double().mean())
        trial = Trial(slots, accuracy, float(cross_entropy(logits, self.shots.labels)))
        return Trained(learner, history, trial)

    def train_best(
        self, counts: Sequence[int], words: Sequence[str]
    ) -> tuple[Trained, tuple[Trial, ...]]:
        """Train with each number of slots; the best result, and all trials.

        The best has the highest accuracy on the training images, then the lowest loss, then the
        fewest words.
        """
        if len(counts) == 1:
            trained = self.train(counts[0], words)
            return trained, (trained.trial,)
        results = []
        for k in counts:
            results.append(self.train(k, words[:k], f"train-{k}-words"))
            trial = results[-1].trial
            shown = f"accuracy {100 * trial.accuracy:.1f} %, loss {trial.loss:.4f}"
            self.reporter.say(f"{several(k, 'word')}: {shown}")
        best = max(results, key=lambda each: (each.trial.accuracy, -each.trial.loss))
        return best, tuple(each.trial for each in results)


def new_learner(
    config: FitConfig, backbone: Backbone, class_names: Sequence[str], words: int
) -> Learner:
    """The untrained learner of a config, with `words` word slots."""
    kind, hyperparameters = learner_class(config.learner), config.hyperparameters
    layout = kind.layout_for(words, hyperparameters.m)
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
