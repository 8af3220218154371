"""One step of training: the loss, its gradients, the optimiser.

A step of prompt learning is hundreds of small kernels, and on a GPU launching them takes longer
than running them. All steps have the same shapes, so on a GPU the kernels of one step are recorded
in a CUDA graph and replayed with a single launch. The steps of several trainings can be recorded as
one, in which their prompts and images go through the frozen towers together.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, cast

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.joined_backbone import JoinedBackbone, run_joined
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
        _backward([loss])
        self.optimiser.step()
        return loss.detach()

    def close(self) -> None:
        """Ends the training's steps."""


class RecordedStep(TrainingStep):
    """The same step, recorded in a CUDA graph on the first batch and replayed for the others."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer, first: Batch) -> None:
        super().__init__(learner, optimiser)
        self.batch = clone_batch(first)  # the recording reads from it
        with training_stream(learner.backbone.device):
            self.recording = Recording([self], [self.batch])

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        copy_batch(batch, self.batch)
        return self.recording.replay()[0].clone()


class Recording:
    """One step of each of several trainings, recorded in a CUDA graph on the current stream.

    It reads the tensors of the batches, and both reads and writes those of the trainings.
    """

    def __init__(self, steps: Sequence[TrainingStep], batches: Sequence[Batch]) -> None:
        learners, optimisers = [s.learner for s in steps], [s.optimiser for s in steps]
        for number in range(STEPS_BEFORE_RECORDING):
            _forget_gradients(optimisers)
            with _sync_mode("error" if number + 1 == STEPS_BEFORE_RECORDING else "default"):
                _backward(joined_losses(learners, batches))
        _forget_gradients(optimisers)  # the recording allocates the gradients it writes into
        for step in steps:  # and updates the momenta in place
            for parameter in step.learner.parameters():
                momenta = step.optimiser.state[parameter]
                momenta.setdefault("momentum_buffer", torch.zeros_like(parameter))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
            losses = joined_losses(learners, batches)
            _backward(losses)
            for optimiser in optimisers:
                optimiser.step()
        self._losses = [loss.detach() for loss in losses]
        self._kept = learners, optimisers, batches  # a graph does not keep what it reads

    def replay(self) -> list[Tensor]:
        """Does a step of each training and returns their losses, which the next step overwrites."""
        self._graph.replay()
        return self._losses


def joined_losses(learners: Sequence[Learner], batches: Sequence[Batch]) -> list[Tensor]:
    """Returns the loss of each learner; several go through the towers together."""
    if len(learners) == 1:
        return [_loss(learners[0], batches[0])]

    def loss_of(learner: Learner, batch: Batch) -> Callable[[JoinedBackbone], Tensor]:
        def compute(joined: JoinedBackbone) -> Tensor:
            own, learner.backbone = learner.backbone, cast(Backbone, joined)
            try:
                return _loss(learner, batch)
            finally:
                learner.backbone = own

        return compute

    pairs = zip(learners, batches, strict=True)
    return run_joined(learners[0].backbone, [loss_of(*pair) for pair in pairs])


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
    if str(device) not in _streams.__dict__:
        _streams.__dict__[str(device)] = torch.cuda.Stream(device)
    stream = _streams.__dict__[str(device)]
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


def _backward(losses: Sequence[Tensor]) -> None:
    """Computes the gradients of losses, quietly if both towers give some to the same vectors."""
    if not losses[0].is_cuda:
        torch.autograd.backward(losses)
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
        torch.autograd.backward(losses)


def _forget_gradients(optimisers: Sequence[torch.optim.Optimizer]) -> None:
    for optimiser in optimisers:
        optimiser.zero_grad()


def clone_batch(batch: Batch) -> Batch:
    """Returns a batch with tensors of its own."""
    tensors = {name: value.clone() for name, value in batch_tensors(batch).items()}
    return replace(batch, **cast(dict[str, Any], tensors))


def copy_batch(batch: Batch, into: Batch) -> None:
    """Copies the tensors of a batch into those of another of the same shapes."""
    for name, value in batch_tensors(batch).items():
        getattr(into, name).copy_(value, non_blocking=True)


def batch_tensors(batch: Batch) -> dict[str, Tensor]:
    """Returns the tensors that a batch has, by name."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if value is not None}
