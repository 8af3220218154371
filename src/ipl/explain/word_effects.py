"""What each word does in the finished prompt: without it, and with a middling word instead."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.datasets.dataset import Item
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.explain.scoring import SampledStep, sample_step, sentence_scorer
from ipl.explain.variants import with_words, without_word
from ipl.metrics import Score, score, truth
from ipl.support.progress import SILENT, Reporter

CLASSES = 3  # shown of those helped and of those hurt
IMAGES = 4


@dataclass(frozen=True)
class ClassEffect:
    """One class with and without the word."""

    name: str
    images: int
    accuracy: float
    accuracy_without: float
    loss: float
    loss_without: float


@dataclass(frozen=True)
class ImageEffect:
    """One image: the probability of its true class, and what it is taken for."""

    item: Item
    true: str
    probability: float
    probability_without: float
    predicted: str
    predicted_without: str


@dataclass(frozen=True)
class WordEffect:
    """One word: scores on the held-out images, and what it helps and hurts most."""

    word: str
    without: Score
    sample: SampledStep | None  # None where the pool is not known
    with_median: Score | None
    classes_helped: tuple[ClassEffect, ...]
    classes_hurt: tuple[ClassEffect, ...]
    images_helped: tuple[ImageEffect, ...]
    images_hurt: tuple[ImageEffect, ...]


def word_effects(
    subject: LoadedRun, run_images: RunImages, log_p: Tensor, reporter: Reporter = SILENT
) -> tuple[WordEffect, ...]:
    """Returns the effect of each word; `log_p` are the log-probabilities with all of them."""
    found = []
    with reporter.task("Taking words out", len(subject.words)) as advance:
        for place in range(len(subject.words)):
            found.append(_effect(subject, run_images, log_p, place))
            advance()
    return tuple(found)


def _effect(subject: LoadedRun, run_images: RunImages, log_p: Tensor, place: int) -> WordEffect:
    learner, words, labels = subject.learner, subject.words, run_images.test.labels
    lacking = without_word(learner, place).log_probabilities(run_images.features)
    sample = with_median = None
    if subject.pool is not None and subject.selection is not None:
        choice = subject.choice(subject.selection)
        scoring = sentence_scorer(learner, choice, run_images.shots)
        sample = sample_step(scoring, choice, subject.pool, words, place)
    if sample is not None:
        instead = [*words[:place], sample.median_word, *words[place + 1 :]]
        median = with_words(learner, instead).log_probabilities(run_images.features)
        with_median = score(median, labels)
    classes = sorted(
        _classes(subject, labels, log_p, lacking), key=lambda c: c.loss - c.loss_without
    )
    change = truth(log_p, labels) - truth(lacking, labels)
    order = torch.argsort(change, descending=True, stable=True).tolist()
    images = [_image(subject, run_images, log_p, lacking, index) for index in _ends(order)]
    return WordEffect(
        word=words[place],
        without=score(lacking, labels),
        sample=sample,
        with_median=with_median,
        classes_helped=tuple(c for c in classes[:CLASSES] if c.loss < c.loss_without),
        classes_hurt=tuple(c for c in classes[::-1][:CLASSES] if c.loss > c.loss_without),
        images_helped=tuple(i for i in images[:IMAGES] if i.probability > i.probability_without),
        images_hurt=tuple(
            i for i in images[::-1][:IMAGES] if i.probability < i.probability_without
        ),
    )


def _ends(order: list[int]) -> list[int]:
    return order if len(order) <= 2 * IMAGES else [*order[:IMAGES], *order[-IMAGES:]]


def _classes(
    subject: LoadedRun, labels: Tensor, log_p: Tensor, lacking: Tensor
) -> list[ClassEffect]:
    found = []
    for label, name in enumerate(subject.classes):
        own = labels == label
        if not own.any():
            continue
        now, then = score(log_p[own], labels[own]), score(lacking[own], labels[own])
        found.append(
            ClassEffect(name, int(own.sum()), now.accuracy, then.accuracy, now.loss, then.loss)
        )
    return found


def _image(
    subject: LoadedRun, run_images: RunImages, log_p: Tensor, lacking: Tensor, index: int
) -> ImageEffect:
    names, item = subject.classes, run_images.test.items[index]
    return ImageEffect(
        item=item,
        true=names[item.label],
        probability=float(log_p[index, item.label].exp()),
        probability_without=float(lacking[index, item.label].exp()),
        predicted=names[int(log_p[index].argmax())],
        predicted_without=names[int(lacking[index].argmax())],
    )
