"""Algorithm 1: a word enters, the vectors train t epochs, the next word enters, ..., until T."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ipl.errors import TrainingError
from ipl.learners import Learner, Recipe
from ipl.progress import SILENT, Reporter
from ipl.training.record import EpochRecord, TrainingRecord
from ipl.training.schedule import learning_rate, word_epochs
from ipl.training.views import View

MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
SMALL_PRODUCT = 5_000_000  # multiplications in the smallest matrix product of a step


def train(
    learner: Learner,
    views: View,
    labels: Tensor,
    words: Sequence[str],
    recipe: Recipe,
    seed: int = 1,
    reporter: Reporter = SILENT,
) -> TrainingRecord:
    """Returns the record of training a learner in place; the last epoch is what is kept."""
    starts = word_epochs(len(words), recipe.interval, recipe.epochs)
    arrivals = dict(zip(starts, words, strict=True))
    optimiser = torch.optim.SGD(
        learner.parameters(), lr=recipe.lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    labels = labels.to(learner.backbone.device)
    order = torch.Generator().manual_seed(seed)
    started = time.perf_counter()
    epochs: list[EpochRecord] = []
    with _threads(learner), reporter.task("Training", recipe.epochs) as advance:
        for epoch in range(recipe.epochs):
            word = arrivals.get(epoch)
            if word is not None:
                learner.place_word(word)
            rate = learning_rate(epoch, recipe.lr, recipe.epochs)
            for group in optimiser.param_groups:
                group["lr"] = rate
            losses = []
            for number, indices in enumerate(batches(len(labels), recipe.batch, order), start=1):
                indices = indices.to(labels.device)
                loss = learner.loss(views.batch(epoch, indices), labels[indices])
                losses.append(_finite(loss, epoch, number))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            mean = sum(losses) / len(losses)
            epochs.append(EpochRecord(epoch, rate, mean, word))
            advance(note=f"loss {mean:.3f}")
    return TrainingRecord(tuple(epochs), time.perf_counter() - started)


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the indices of an epoch's batches; a short last one is dropped unless it is all."""
    order = torch.randperm(count, generator=generator)
    full = count - count % size or count
    yield from order[:full].split(size)


@contextmanager
def _threads(learner: Learner) -> Iterator[None]:
    """Trains small prompts on one thread of a CPU: two would mostly wait for each other."""
    classes, tokens, width = learner.prompts.embeddings.shape
    own = tokens - learner.prompts.shared
    small = (learner.prompts.shared + classes * own) * width**2 < SMALL_PRODUCT
    before = torch.get_num_threads()
    if small and learner.backbone.device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _finite(loss: Tensor, epoch: int, batch: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise TrainingError(
            f"The loss became {value} in epoch {epoch + 1}, batch {batch}; training stopped. "
            "A smaller learning rate or precision fp32 may help."
        )
    return value
