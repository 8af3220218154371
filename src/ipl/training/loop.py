"""Algorithm 1 of the paper: words enter the prompt every t epochs while the vectors are trained."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice

import torch
from torch import Tensor

from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.support.errors import NotFiniteError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import Checkpoint, TrainingState
from ipl.training.history import EpochRecord, TrainingHistory
from ipl.training.schedule import images_per_epoch, learning_rate
from ipl.training.step import TrainingStep, make_step
from ipl.training.views import View

MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
HELP = "a smaller learning rate or precision fp32 may help."
SMALL_PRODUCT = 5_000_000  # multiplications in the smallest matrix product of a step


def train(
    learner: Learner,
    views: View,
    count: int,
    words: Sequence[str],
    hyperparameters: Hyperparameters,
    seed: int = 1,
    reporter: Reporter = SILENT,
    checkpoint: Checkpoint | None = None,
) -> TrainingHistory:
    """Trains a learner in place.

    Parameters
    ----------
    learner : Learner
        The untrained learner. It ends with the vectors of the last epoch, or with the average over
        epochs that the hyperparameters ask for.
    views : View
        Gives the images of each batch.
    count : int
        The number of training images.
    words : sequence of str
        The words, in the order in which they enter.
    hyperparameters : Hyperparameters
        The hyperparameters.
    seed : int, default 1
        Draws the order of the images.
    reporter : Reporter
        Gets the progress, and an EpochRecord after every epoch.
    checkpoint : Checkpoint, optional
        The state to resume from, if there is one; the result is the same as without interruption.

    Returns
    -------
    TrainingHistory
        The epochs and the time they took.

    Raises
    ------
    NotFiniteError
        If the loss or a vector is not finite.
    """
    arrivals = dict(zip(hyperparameters.word_epochs(len(words)), words, strict=True))
    optimiser = new_optimiser(learner, hyperparameters.lr)
    average = Average(learner, hyperparameters)
    checkpoint = checkpoint or Checkpoint()
    order = torch.Generator().manual_seed(seed)
    epochs: list[EpochRecord] = []
    spent = 0.0
    if state := checkpoint.read():
        restore_tensors(state.tensors, learner, optimiser, average)
        epochs, spent = list(state.epochs), state.seconds
        for epoch in range(len(epochs)):  # repeat their random draws and their words
            next(batches(count, hyperparameters.batch, order))
            if epoch in arrivals:
                learner.place_word(arrivals[epoch])
        reporter.say(f"Resuming after epoch {len(epochs)} of {hyperparameters.epochs}.")
        for record in epochs:
            reporter.record_event(record)
    steps = -(-images_per_epoch(count, hyperparameters.batch) // hyperparameters.batch)
    started = time.perf_counter() - spent
    step: TrainingStep | None = None
    upcoming = views.batches(
        (epoch, indices)
        for epoch in range(len(epochs), hyperparameters.epochs)
        for indices in batches(count, hyperparameters.batch, order)
    )
    with (
        closing(upcoming),
        _training_threads(learner),
        reporter.task("Training", hyperparameters.epochs) as advance,
    ):
        advance(len(epochs))
        try:
            for epoch in range(len(epochs), hyperparameters.epochs):
                word = arrivals.get(epoch)
                if word is not None:
                    learner.place_word(word)
                rate = learning_rate(epoch, hyperparameters.lr, hyperparameters.epochs)
                set_rate(optimiser, rate)
                losses = []
                for batch in islice(upcoming, steps):
                    step = step or make_step(learner, optimiser, batch, reporter)
                    losses.append(step(batch))
                mean = _mean(losses, epoch)
                average.add(epoch)
                epochs.append(EpochRecord(epoch, rate, mean, word))
                if checkpoint.cache is not None:
                    tensors = training_tensors(learner, optimiser, average)
                    seconds = time.perf_counter() - started
                    checkpoint.update(TrainingState(tensors, tuple(epochs), seconds))
                advance(note=f"loss {mean:.3f}")
                reporter.record_event(epochs[-1])
        except NotFiniteError:
            checkpoint.remove()
            raise
        finally:
            checkpoint.write()
    average.put_in_place()
    _check_finite(learner)
    return TrainingHistory(tuple(epochs), time.perf_counter() - started)


def new_optimiser(learner: Learner, lr: float) -> torch.optim.SGD:
    """Returns the optimiser, the same for every learner."""
    on_gpu = learner.backbone.device.type == "cuda"
    return torch.optim.SGD(
        learner.parameters(),
        # On a GPU a recorded step reads the rate from there.
        lr=torch.tensor(lr, device=learner.backbone.device) if on_gpu else lr,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        fused=on_gpu or None,
    )


def set_rate(optimiser: torch.optim.SGD, rate: float) -> None:
    """Sets the learning rate of an optimiser."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class Average:
    """The average of a learner's parameters over epochs, with Gaussian weights."""

    def __init__(self, learner: Learner, hyperparameters: Hyperparameters) -> None:
        self.learner, self.mean, self.std = (
            learner,
            hyperparameters.average_mean,
            hyperparameters.average_std,
        )
        epochs = range(1, hyperparameters.epochs + 1)
        mean = self.mean or 0.0
        # Relative to the nearest epoch, so that the largest weight is 1 and does not underflow.
        nearest = min((epoch - mean) ** 2 for epoch in epochs)
        weights = [math.exp((nearest - (e - mean) ** 2) / (2 * self.std**2)) for e in epochs]
        self.weights = [weight / sum(weights) for weight in weights]
        self.sums: dict[str, Tensor] = {}

    def add(self, epoch: int) -> None:
        """Adds the parameters as they are after an epoch (from 0)."""
        if self.mean is None:
            return
        for name, value in self.learner.named_parameters():
            part = self.weights[epoch] * value.detach().float()
            self.sums[name] = part + self.sums[name] if name in self.sums else part

    @torch.no_grad()
    def put_in_place(self) -> None:
        """Replaces the learner's parameters by the average."""
        for name, value in self.learner.named_parameters():
            if name in self.sums:
                value.copy_(self.sums[name])


def training_tensors(
    learner: Learner, optimiser: torch.optim.SGD, average: Average
) -> dict[str, Tensor]:
    """Returns copies of the tensors that training resumes from: parameters, momenta, averages."""
    tensors: dict[str, Tensor] = {}
    for name, value in learner.named_parameters():
        tensors[f"parameter/{name}"] = value.detach()
        momentum = optimiser.state[value].get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum/{name}"] = momentum
    tensors.update({f"average/{name}": value for name, value in average.sums.items()})
    return {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}


@torch.no_grad()
def restore_tensors(
    tensors: Mapping[str, Tensor], learner: Learner, optimiser: torch.optim.SGD, average: Average
) -> None:
    """Restores the tensors of a checkpoint of the same training."""
    for name, value in learner.named_parameters():
        value.copy_(tensors[f"parameter/{name}"])
        if (momentum := tensors.get(f"momentum/{name}")) is not None:
            optimiser.state[value]["momentum_buffer"] = momentum.to(value.device, copy=True)
        if (mean := tensors.get(f"average/{name}")) is not None:
            average.sums[name] = mean.to(value.device, copy=True)


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yields the indices of an epoch's batches; a short last one is dropped unless it is alone."""
    order = torch.randperm(count, generator=generator)
    yield from order[: images_per_epoch(count, size)].split(size)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limits torch to one thread, which is faster for small prompts on a CPU."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _training_threads(learner: Learner) -> AbstractContextManager[None]:
    """Returns a context in which a learner trains with the best number of threads."""
    classes, tokens, width = learner.prompts.embeddings.shape
    shared = learner.prompts.shared
    rows = shared + classes * (tokens - shared)
    small = rows * width**2 < SMALL_PRODUCT
    small = small and not learner.prompts_images  # the image tower has enough rows
    if small and learner.backbone.device.type == "cpu":
        return _one_thread()
    return nullcontext()


def _mean(losses: Sequence[Tensor], epoch: int) -> float:
    """Returns the mean loss of an epoch, waiting for the device only once."""
    values: list[float] = torch.stack(list(losses)).tolist()
    for batch, value in enumerate(values, start=1):
        if not math.isfinite(value):
            raise NotFiniteError(
                f"The loss became {value} in epoch {epoch + 1}, batch {batch}; {HELP}"
            )
    return sum(values) / len(values)


def _check_finite(learner: Learner) -> None:
    """Raises NotFiniteError if the last step made a vector NaN, which no loss shows."""
    for name, value in learner.named_parameters():
        if not bool(value.isfinite().all()):
            raise NotFiniteError(f"The trained {name} contains NaN or infinity; {HELP}")
