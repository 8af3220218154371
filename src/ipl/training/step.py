"""One step of training: the loss, its gradients, the optimiser.

A step of prompt learning is hundreds of small kernels, and on a GPU launching them takes longer
than running them. All steps have the same shapes, so on a GPU the kernels of one step are recorded
in a CUDA graph and replayed with a single launch.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import torch
from torch import Tensor

from ipl.learners.learner import Batch, Learner
from ipl.support.errors import TrainingError
from ipl.support.progress import Reporter
from ipl.support.turns import takes_turns

STEPS_BEFORE_RECORDING = 3  # in which kernels are chosen and memory is allocated


class TrainingStep:
    """A step of training, computed as the learner's loss defines it."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer) -> None:
        self.learner, self.optimiser = learner, optimiser

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        self.optimiser.zero_grad()
        loss = _loss(self.learner, batch)
        loss.backward()
        self.optimiser.step()
        return loss.detach()


class RecordedStep(TrainingStep):
    """The same step, recorded in a CUDA graph on the first batch and replayed for the others."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer, first: Batch) -> None:
        super().__init__(learner, optimiser)
        self.batch = _map_tensors(first, torch.clone)  # the recording reads from these
        with training_stream(learner.backbone.device):
            for number in range(STEPS_BEFORE_RECORDING):
                optimiser.zero_grad()
                with _sync_mode("error" if number + 1 == STEPS_BEFORE_RECORDING else "default"):
                    _loss(learner, self.batch).backward()
            optimiser.zero_grad()  # the recording allocates the gradients it writes into
            for parameter in learner.parameters():  # and updates the momenta in place
                momenta = optimiser.state[parameter]
                momenta.setdefault("momentum_buffer", torch.zeros_like(parameter))
            self.recording = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.recording, stream=torch.cuda.current_stream()):
                self.loss = learner.loss(self.batch)
                self.loss.backward()
                optimiser.step()

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        for field in fields(batch):
            values = getattr(batch, field.name)
            if values is not None:
                getattr(self.batch, field.name).copy_(values, non_blocking=True)
        self.recording.replay()
        return self.loss.detach().clone()


def _loss(learner: Learner, batch: Batch) -> Tensor:
    """Returns the loss of a batch; raises TrainingError if a learner of one's own returns none."""
    loss = learner.loss(batch)
    if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
        is_tensor = isinstance(loss, Tensor)
        found = f"a tensor of shape {tuple(loss.shape)}" if is_tensor else type(loss).__name__
        raise TrainingError(
            f"The loss of the learner {learner.name} must be a single number as a tensor that "
            f"depends on its parameters; loss() returned {found}."
        )
    return loss


def make_step(
    learner: Learner, optimiser: torch.optim.Optimizer, first: Batch, reporter: Reporter
) -> TrainingStep:
    """Returns a step for batches of the same shape: recorded on a GPU, if the learner allows it.

    Only the main thread records, and threads that take turns: a recording would capture what other
    threads do on the GPU at the same time, or fail because of it.
    """
    alone = threading.current_thread() is threading.main_thread() or takes_turns()
    if learner.backbone.device.type == "cuda" and learner.recordable and alone:
        try:
            return RecordedStep(learner, optimiser, first)
        except RuntimeError as error:  # the loss of a plug-in may not be recordable
            optimiser.zero_grad()
            reporter.say(
                f"Steps of {learner.name} cannot be recorded in a CUDA graph and run more slowly "
                f"without it: {str(error).splitlines()[0]}"
            )
    return TrainingStep(learner, optimiser)


@contextmanager
def training_stream(device: torch.device) -> Iterator[None]:
    """Puts a block's work on a stream of this thread's own, so that a GPU can do others beside it.

    The block sees what was computed before it, and what comes after it sees its results.
    """
    if device.type != "cuda":
        yield
        return
    around = torch.cuda.current_stream(device)
    stream = _streams.__dict__.setdefault(str(device), torch.cuda.Stream(device))
    stream.wait_stream(around)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        around.wait_stream(stream)


_streams = threading.local()  # a stream for each device


@contextmanager
def _sync_mode(mode: str) -> Iterator[None]:
    """Sets whether waiting for the GPU is an error; a recording that waits would crash."""
    previous = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls this mode a prototype
        torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(previous)


def _map_tensors(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """Returns a batch with a function applied to each of its tensors."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(batch, **{k: change(v) for k, v in values.items() if v is not None})
