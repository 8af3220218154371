"""Base-to-novel: learn on half of the classes, test on both halves, each a closed set."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.tasks import base_shots
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import split_base_novel
from ipl.metrics import harmonic_mean
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter


@dataclass(frozen=True)
class Method:
    """A name to show and what PromptClassifier is built with; None is zero-shot CLIP."""

    name: str
    settings: dict[str, Any] | None = None


@dataclass(frozen=True)
class Outcome:
    """One method with one seed; accuracies from 0 to 1."""

    method: str
    seed: int
    base: float
    novel: float
    words: tuple[str, ...] = ()

    @property
    def hm(self) -> float:
        """Returns the harmonic mean of base and novel accuracy."""
        return harmonic_mean(self.base, self.novel)

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {**asdict(self), "words": list(self.words), "hm": self.hm}


@dataclass
class BaseToNovel:
    """All outcomes, and the fitted classifiers by (method, seed)."""

    outcomes: list[Outcome] = field(default_factory=list)
    classifiers: dict[tuple[str, int], PromptClassifier] = field(default_factory=dict)

    def of(self, method: str) -> list[Outcome]:
        """Returns a method's outcomes in order of seed."""
        return [outcome for outcome in self.outcomes if outcome.method == method]


def base_to_novel(
    dataset: Dataset,
    backbone: Backbone,
    methods: Sequence[Method],
    seeds: Sequence[int],
    shots: int = 16,
    reporter: Reporter = SILENT,
    done: Callable[[Outcome], None] | None = None,
) -> BaseToNovel:
    """Returns every method's outcome for every seed, on the same shots and test images."""
    if not seeds:
        raise ConfigError("seeds is empty; give at least one.")
    store = FeatureStore(backbone)
    base, novel = split_base_novel(dataset)
    result = BaseToNovel()
    for seed in seeds:
        half = base_shots(dataset, shots, seed)
        for method in methods:
            if method.settings is None:
                outcome = Outcome(
                    method.name,
                    seed,
                    zero_shot_accuracy(base, store),
                    zero_shot_accuracy(novel, store),
                )
            else:
                classifier = PromptClassifier(
                    backbone, shots=shots, seed=seed, reporter=reporter, **method.settings
                ).fit(half, features=store)
                result.classifiers[method.name, seed] = classifier
                outcome = Outcome(
                    method.name,
                    seed,
                    classifier.score(base, features=store),
                    classifier.with_classes(novel).score(novel, features=store),
                    tuple(classifier.words_),
                )
            result.outcomes.append(outcome)
            if done is not None:
                done(outcome)
    return result


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and the sample standard deviation (0 for a single value)."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0
