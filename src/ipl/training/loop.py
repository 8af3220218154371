"""Algorithm 1 of the paper: words enter the prompt every t epochs while the vectors are trained."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice

import torch
from torch import Tensor

from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.support.errors import NotFiniteError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import Checkpoint, TrainingState
from ipl.training.history import EpochRecord, TrainingHistory
from ipl.training.schedule import images_per_epoch, learning_rate, steps_per_epoch
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
    title: str = "Training",
) -> TrainingHistory:
    """Train a learner in place; the words enter in order.

    It ends with the vectors of the last epoch, or with the average over epochs that the
    hyperparameters ask for. From a checkpoint it resumes with the same result as uninterrupted.
    The reporter gets an EpochRecord after every epoch.
    """
    arrivals = dict(zip(hyperparameters.word_epochs(len(words)), words, strict=True))
    optimiser = new_optimiser(learner, hyperparameters.lr)
    average = Average(learner, hyperparameters)
    order = torch.Generator().manual_seed(seed)
    past = TrainingHistory((), 0.0)
    if checkpoint is not None and (state := checkpoint.read()) is not None:
        past = state.history
        restore_tensors(state.tensors, learner, optimiser, average)
        for record in past.epochs:  # repeat their random draws and their words
            next(batches(count, hyperparameters.batch, order))
            if record.word is not None:
                learner.place_word(record.word)
        reporter.say(f"Resuming after epoch {len(past.epochs)} of {hyperparameters.epochs}.")
        for record in past.epochs:
            reporter.record_event(record)
    epochs = list(past.epochs)
    steps = steps_per_epoch(count, hyperparameters.batch)
    started = time.perf_counter() - past.seconds
    step: TrainingStep | None = None
    upcoming = views.batches(
        (epoch, indices)
        for epoch in range(len(epochs), hyperparameters.epochs)
        for indices in batches(count, hyperparameters.batch, order)
    )
    with (
        closing(upcoming),
        _training_threads(learner),
        reporter.task(title, hyperparameters.epochs) as advance,
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
                if checkpoint is not None:
                    tensors = training_tensors(learner, optimiser, average)
                    history = TrainingHistory(tuple(epochs), time.perf_counter() - started)
                    checkpoint.update(TrainingState(tensors, history))
                advance(note=f"loss {mean:.3f}")
                reporter.record_event(epochs[-1])
        except NotFiniteError:
            if checkpoint is not None:
                checkpoint.remove()
            raise
        finally:
            if checkpoint is not None:
                checkpoint.write()
    average.put_in_place()
    _check_finite(learner)
    return TrainingHistory(tuple(epochs), time.perf_counter() - started)


def new_optimiser(learner: Learner, lr: float) -> torch.optim.SGD:
    """The optimiser, the same for every learner."""
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
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class Average:
    """The average of a learner's parameters over epochs, with Gaussian weights."""

    def __init__(self, learner: Learner, hyperparameters: Hyperparameters) -> None:
        self.learner = learner
        self.weights: list[float] | None = None  # of each epoch; without them, nothing is averaged
        self.sums: dict[str, Tensor] = {}
        mean, std = hyperparameters.average_mean, hyperparameters.average_std
        if mean is not None:
            distances = [(epoch - mean) ** 2 for epoch in range(1, hyperparameters.epochs + 1)]
            # Relative to the nearest epoch, so that the largest weight is 1 and does not underflow.
            weights = [math.exp((min(distances) - each) / (2 * std**2)) for each in distances]
            self.weights = [weight / sum(weights) for weight in weights]

    def add(self, epoch: int) -> None:
        """Add the parameters as they are after an epoch (from 0)."""
        if self.weights is None:
            return
        for name, value in self.learner.named_parameters():
            part = self.weights[epoch] * value.detach().float()
            self.sums[name] = part + self.sums[name] if name in self.sums else part

    @torch.no_grad()
    def put_in_place(self) -> None:
        """Replace the learner's parameters by the average."""
        for name, value in self.learner.named_parameters():
            if name in self.sums:
                value.copy_(self.sums[name])


def training_tensors(
    learner: Learner, optimiser: torch.optim.SGD, average: Average
) -> dict[str, Tensor]:
    """Copies of the tensors that training resumes from: parameters, momenta, averages."""
    tensors: dict[str, Tensor] = {}
    for name, value in learner.named_parameters():
        tensors[f"parameter/{name}"] = value
        momentum = optimiser.state[value].get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum/{name}"] = momentum
    tensors.update({f"average/{name}": value for name, value in average.sums.items()})
    return {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}


@torch.no_grad()
def restore_tensors(
    tensors: Mapping[str, Tensor], learner: Learner, optimiser: torch.optim.SGD, average: Average
) -> None:
    for name, value in learner.named_parameters():
        value.copy_(tensors[f"parameter/{name}"])
        if (momentum := tensors.get(f"momentum/{name}")) is not None:
            optimiser.state[value]["momentum_buffer"] = momentum.to(value.device, copy=True)
        if (mean := tensors.get(f"average/{name}")) is not None:
            average.sums[name] = mean.to(value.device, copy=True)


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The indices of an epoch's batches; a short last one is dropped unless it is alone."""
    order = torch.randperm(count, generator=generator)
    yield from order[: images_per_epoch(count, size)].split(size)


@contextmanager
def _training_threads(learner: Learner) -> Iterator[None]:
    """Limits torch to one thread if prompts are small, which is faster on a CPU."""
    usual = torch.get_num_threads()
    rows, width = learner.prompts.rows.shape
    small = rows * width**2 < SMALL_PRODUCT and not learner.prompts_images
    if small and learner.backbone.device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _mean(losses: Sequence[Tensor], epoch: int) -> float:
    """The mean loss of an epoch, waiting for the device only once."""
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
