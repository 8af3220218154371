"""Accuracy, confusion and calibration of the prompt, beside zero-shot and the plain learner."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.backbone.shots import LabelledFeatures, encode_items
from ipl.backbone.zero_shot import ZERO_SHOT_TEMPLATE
from ipl.datasets.dataset import Dataset
from ipl.explain.baseline import Baseline
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.learners.learner import Learner
from ipl.metrics import (
    Calibration,
    Confused,
    Score,
    calibration,
    confusion,
    harmonic_mean,
    most_confused,
    score,
)
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import features_for

MOST_CLASSES = 40  # whose confusion is kept whole
ZERO_SHOT, PLAIN, PROMPT = "zero-shot", "plain", "prompt"


@dataclass(frozen=True)
class MethodOutcome:
    """One way to classify: scores on the held-out images, and on classes never trained on."""

    name: str  # zero-shot, plain or prompt
    how: str
    test: Score
    calibration: Calibration
    confused: tuple[Confused, ...]  # most often first
    counts: tuple[tuple[int, ...], ...] | None  # (true, predicted); None with very many classes
    novel: Score | None

    @property
    def hm(self) -> float | None:
        """Returns the harmonic mean of the accuracies on base and novel classes."""
        return (
            None if self.novel is None else harmonic_mean(self.test.accuracy, self.novel.accuracy)
        )


@dataclass(frozen=True)
class Outcomes:
    """All methods on the same images; `why_no_novel` says why there are no novel classes."""

    methods: tuple[MethodOutcome, ...]
    classes: tuple[str, ...]
    images: int
    novel_classes: tuple[str, ...]
    novel_images: int
    why_no_novel: str | None

    def of(self, name: str) -> MethodOutcome | None:
        """Returns the method of a name, None if it was not looked at."""
        return next((method for method in self.methods if method.name == name), None)


@torch.no_grad()
def zero_shot(learner: Learner, names: tuple[str, ...], seen: LabelledFeatures) -> Tensor:
    """Returns the log-probabilities (images, classes) of a hand-made prompt, nothing learnt."""
    texts = learner.backbone.encode_texts([ZERO_SHOT_TEMPLATE.format(name) for name in names])
    return learner.backbone.logits(seen.features, texts).cpu().double().log_softmax(1)


def outcomes(
    subject: LoadedRun,
    run_images: RunImages,
    log_p: Tensor,
    plain: Baseline | None,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> Outcomes:
    """Returns every method's scores; `log_p` are the prompt's on the held-out images."""
    learner, names = subject.learner, subject.classes
    novel, why = _novel(subject, run_images, strict, reporter)
    methods = [
        _method(
            ZERO_SHOT,
            f'CLIP as it comes, "{ZERO_SHOT_TEMPLATE}"',
            zero_shot(learner, names, run_images.test),
            run_images.test,
            names,
            None if novel is None else score(zero_shot(learner, *novel), novel[1].labels),
        )
    ]
    compared = [(PROMPT, subject.saved.prompt, learner, log_p)]
    if plain is not None:
        own = plain.learner.log_probabilities(features_for(plain.learner, run_images.test))
        compared.insert(0, (PLAIN, plain.how, plain.learner, own))
    for name, how, used, found in compared:
        after = None if novel is None else _on_novel(used, *novel)
        methods.append(_method(name, how, found, run_images.test, names, after))
    classes, seen = novel or ((), None)
    count = len(seen.items) if seen else 0
    return Outcomes(tuple(methods), names, len(run_images.test.items), classes, count, why)


def _method(
    name: str,
    how: str,
    log_p: Tensor,
    seen: LabelledFeatures,
    names: tuple[str, ...],
    novel: Score | None,
) -> MethodOutcome:
    counts = confusion(log_p, seen.labels)
    return MethodOutcome(
        name=name,
        how=how,
        test=score(log_p, seen.labels),
        calibration=calibration(log_p, seen.labels),
        confused=most_confused(counts, names),
        counts=tuple(map(tuple, counts.tolist())) if len(names) <= MOST_CLASSES else None,
        novel=novel,
    )


def _novel(
    subject: LoadedRun, run_images: RunImages, strict: bool, reporter: Reporter
) -> tuple[tuple[tuple[str, ...], LabelledFeatures] | None, str | None]:
    """Returns the classes and images that the run never saw, or why there are none."""
    dataset: Dataset | None = run_images.novel
    if dataset is None:
        return None, (
            "The run was trained on all classes of this data (or all but one). Data with more "
            "classes than the run would show how the prompt does on them."
        )
    items = dataset.test or dataset.train
    seen = encode_items(items, "novel", subject.store, strict, reporter)
    if not seen.items:
        return None, "No image of the data's other classes could be read."
    return (dataset.class_names, seen), None


def _on_novel(learner: Learner, names: tuple[str, ...], seen: LabelledFeatures) -> Score:
    other = learner.for_classes(names)
    return score(other.log_probabilities(features_for(other, seen)), seen.labels)
