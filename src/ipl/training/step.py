"""One step of training: the loss, its gradients, the optimiser.

A step of prompt learning is hundreds of small kernels, and on a GPU launching them takes longer
than running them. All steps have the same shapes, so on a GPU the kernels of one step are recorded
in a CUDA graph and replayed with a single launch.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from ipl.learners.learner import Batch, Learner
from ipl.support.errors import TrainingError
from ipl.support.progress import Reporter

STEPS_BEFORE_RECORDING = 3  # in which kernels are chosen and memory is allocated


class TrainingStep:
    """A step of training, computed as the learner's loss defines it."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer) -> None:
        self.learner, self.optimiser = learner, optimiser

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        self.optimiser.zero_grad()
        loss = _loss(self.learner, batch)
        _backward(loss)
        self.optimiser.step()
        return loss.detach()


class RecordedStep(TrainingStep):
    """The same step, recorded in a CUDA graph on the first batch and replayed for the others."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer, first: Batch) -> None:
        super().__init__(learner, optimiser)
        tensors = {name: value.clone() for name, value in _tensors(first).items()}
        self.batch = replace(first, **cast(dict[str, Any], tensors))  # the recording reads from it
        around, stream = torch.cuda.current_stream(), _recording_stream(learner.backbone.device)
        stream.wait_stream(around)
        try:
            with torch.cuda.stream(stream):
                self._record()
        finally:
            around.wait_stream(stream)

    def _record(self) -> None:
        """Records the step on the current stream."""
        for number in range(STEPS_BEFORE_RECORDING):
            self.optimiser.zero_grad()
            with _sync_mode("error" if number + 1 == STEPS_BEFORE_RECORDING else "default"):
                _backward(_loss(self.learner, self.batch))
        self.optimiser.zero_grad()  # the recording allocates the gradients it writes into
        for parameter in self.learner.parameters():  # and updates the momenta in place
            momenta = self.optimiser.state[parameter]
            momenta.setdefault("momentum_buffer", torch.zeros_like(parameter))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
            loss = _loss(self.learner, self.batch)
            _backward(loss)
            self.optimiser.step()
        self._recorded_loss = loss.detach()

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        for name, value in _tensors(batch).items():
            getattr(self.batch, name).copy_(value, non_blocking=True)
        self._graph.replay()
        return self._recorded_loss.clone()


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

    Only the main thread records: a recording would capture what other threads do on the GPU at the
    same time, or fail because of it.
    """
    main_thread = threading.current_thread() is threading.main_thread()
    if learner.backbone.device.type == "cuda" and learner.recordable and main_thread:
        try:
            return RecordedStep(learner, optimiser, first)
        except RuntimeError as error:  # the loss of a plug-in may not be recordable
            optimiser.zero_grad()
            reporter.say(
                f"Steps of {learner.name} cannot be recorded in a CUDA graph and run more slowly "
                f"without it: {str(error).splitlines()[0]}"
            )
    return TrainingStep(learner, optimiser)


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns the stream on which steps are recorded; one for all, whose memory is used again."""
    return torch.cuda.Stream(device)


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


def _backward(loss: Tensor) -> None:
    """Computes the gradients of a loss, quietly if both towers give some to the same vectors."""
    if not loss.is_cuda:
        loss.backward()
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
        loss.backward()


def _tensors(batch: Batch) -> dict[str, Tensor]:
    """Returns the tensors that a batch has, by name."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if value is not None}
