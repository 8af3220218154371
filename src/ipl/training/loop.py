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
    count: int,
    words: Sequence[str],
    recipe: Recipe,
    seed: int = 1,
    reporter: Reporter = SILENT,
) -> TrainingRecord:
    """Returns the record of training a learner in place on `count` images.

    What is kept is the last epoch, or the recipe's average over epochs.
    """
    starts = word_epochs(len(words), recipe.interval, recipe.epochs)
    arrivals = dict(zip(starts, words, strict=True))
    optimiser = torch.optim.SGD(
        learner.parameters(), lr=recipe.lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    average = Average(learner, recipe)
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
            for number, indices in enumerate(batches(count, recipe.batch, order), start=1):
                loss = learner.loss(views.batch(epoch, indices))
                losses.append(_finite(loss, epoch, number))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            mean = sum(losses) / len(losses)
            average.add(epoch)
            epochs.append(EpochRecord(epoch, rate, mean, word))
            advance(note=f"loss {mean:.3f}")
    average.put_in_place()
    return TrainingRecord(tuple(epochs), time.perf_counter() - started)


class Average:
    """The mean of a learner's parameters over epochs, with Gaussian weights, if a recipe asks."""

    def __init__(self, learner: Learner, recipe: Recipe) -> None:
        self.learner, self.mean, self.std = learner, recipe.average_mean, recipe.average_std
        epochs = range(1, recipe.epochs + 1)
        mean = self.mean or 0.0
        # Distances from the nearest epoch, so that the largest weight is 1 and none underflows.
        nearest = min((epoch - mean) ** 2 for epoch in epochs)
        weights = [math.exp((nearest - (e - mean) ** 2) / (2 * self.std**2)) for e in epochs]
        self.weights = [weight / sum(weights) for weight in weights]
        self.sums: dict[str, Tensor] = {}

    def add(self, epoch: int) -> None:
        """Takes in the parameters as they are after an epoch (from 0)."""
        if self.mean is None:
            return
        for name, value in self.learner.named_parameters():
            part = self.weights[epoch] * value.detach().float()
            self.sums[name] = part + self.sums[name] if name in self.sums else part

    @torch.no_grad()
    def put_in_place(self) -> None:
        """Makes the average the learner's parameters."""
        for name, value in self.learner.named_parameters():
            if name in self.sums:
                value.copy_(self.sums[name])


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
    small = small and not learner.prompts_images  # the image tower has rows enough for all
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
