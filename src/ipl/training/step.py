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
from functools import cache

import torch
from torch import Tensor

from ipl.learners.learner import Batch, Learner
from ipl.support.errors import TrainingError
from ipl.support.progress import Reporter

# Torch says so where both towers, each on its stream, give gradients to the same vectors.
warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
STEPS_BEFORE_RECORDING = 3  # in which kernels are chosen and memory is allocated


class TrainingStep:
    """A step of training, computed as the learner's loss defines it."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer) -> None:
        self.learner, self.optimiser = learner, optimiser

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch and returns the loss."""
        self.optimiser.zero_grad()
        loss = self.compute_gradients(batch)
        self.optimiser.step()
        return loss

    def compute_gradients(self, batch: Batch) -> Tensor:
        """The loss of a batch, once its gradients are in the learner's parameters."""
        loss = self.learner.loss(batch)
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            is_tensor = isinstance(loss, Tensor)
            found = f"a tensor of shape {tuple(loss.shape)}" if is_tensor else type(loss).__name__
            raise TrainingError(
                f"The loss of the learner {self.learner.name} must be a single number as a tensor "
                f"that depends on its parameters; loss() returned {found}."
            )
        loss.backward()
        return loss.detach()


class RecordedStep(TrainingStep):
    """The same step, recorded in a CUDA graph on the first batch and replayed for the others."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer, first: Batch) -> None:
        super().__init__(learner, optimiser)
        # The recording reads from these tensors.
        self.batch = Batch._make(None if part is None else part.clone() for part in first)
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
                self.compute_gradients(self.batch)
        self.optimiser.zero_grad()  # the recording allocates the gradients it writes into
        for parameter in self.learner.parameters():  # and updates the momenta in place
            momenta = self.optimiser.state[parameter]
            momenta.setdefault("momentum_buffer", torch.zeros_like(parameter))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
            self._recorded_loss = self.compute_gradients(self.batch)
            self.optimiser.step()

    def __call__(self, batch: Batch) -> Tensor:
        for recorded, part in zip(self.batch, batch, strict=True):
            if recorded is not None and part is not None:
                recorded.copy_(part, non_blocking=True)
        self._graph.replay()
        return self._recorded_loss.clone()


def make_step(
    learner: Learner, optimiser: torch.optim.Optimizer, first: Batch, reporter: Reporter
) -> TrainingStep:
    """A step for batches of the same shape: recorded on a GPU, if the learner allows it.

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
    """The stream on which steps are recorded; one for all, whose memory is used again."""
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
