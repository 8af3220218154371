"""One step of training: the loss, its gradients, the optimiser.

A step of prompt learning is hundreds of small kernels, and on a GPU starting them takes longer than
running them. All steps have the same shapes, so there the kernels of one are recorded in a CUDA
graph and played back as one launch.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import torch
from torch import Tensor

from ipl.learners.batch import Batch
from ipl.learners.learner import Learner
from ipl.support.progress import Reporter

WARM_UP = 3  # steps before a recording: kernels are chosen and memory is laid out in them


class TrainingStep:
    """A step as it is written down in a learner's loss."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer) -> None:
        self.learner, self.optimiser = learner, optimiser

    def __call__(self, batch: Batch) -> Tensor:
        """Returns the loss of a batch, having learnt from it."""
        self.optimiser.zero_grad()
        loss = self.learner.loss(batch)
        loss.backward()
        self.optimiser.step()
        return loss.detach()


class RecordedStep(TrainingStep):
    """The same step, its kernels recorded once on a first batch and played back for the others."""

    def __init__(self, learner: Learner, optimiser: torch.optim.Optimizer, first: Batch) -> None:
        super().__init__(learner, optimiser)
        self.batch = _each(first, torch.clone)  # where the recording reads from
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for number in range(WARM_UP):
                optimiser.zero_grad()
                with _waiting("error" if number + 1 == WARM_UP else "default"):
                    learner.loss(self.batch).backward()
            optimiser.zero_grad()  # the recording allocates the gradients it writes into
        torch.cuda.current_stream().wait_stream(aside)
        self.recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recording):
            self.loss = learner.loss(self.batch)
            self.loss.backward()

    def __call__(self, batch: Batch) -> Tensor:
        """Returns the loss of a batch, having learnt from it."""
        for field in fields(batch):
            values = getattr(batch, field.name)
            if values is not None:
                getattr(self.batch, field.name).copy_(values, non_blocking=True)
        self.recording.replay()
        self.optimiser.step()
        return self.loss.detach().clone()


def make_step(
    learner: Learner, optimiser: torch.optim.Optimizer, first: Batch, reporter: Reporter
) -> TrainingStep:
    """Returns a step for batches like the first: recorded on a GPU, if the learner allows it.

    Where a program trains in other threads than its main one, several may use the GPU at a time;
    a recording would hold what they do, or die of it.
    """
    alone = threading.current_thread() is threading.main_thread()
    if learner.backbone.device.type == "cuda" and learner.recordable and alone:
        try:
            return RecordedStep(learner, optimiser, first)
        except RuntimeError as error:  # what a loss of someone else's does may not be recordable
            optimiser.zero_grad()
            reporter.say(
                f"Steps of {learner.name} cannot be recorded in a CUDA graph and run one kernel "
                f"at a time: {str(error).splitlines()[0]}"
            )
    return TrainingStep(learner, optimiser)


@contextmanager
def _waiting(mode: str) -> Iterator[None]:
    """Makes waiting for the GPU an error or not; a recording cannot hold it, and dies untidily."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls this mode a prototype
        torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _each(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    there = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return replace(batch, **{k: change(v) for k, v in there.items() if v is not None})
