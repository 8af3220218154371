"""Steps of several trainings as one, in threads that take turns.

A training gives its batch and waits until all others whose steps have the same shapes have given
theirs; the last one does the step of all. Who ends leaves, and who begins joins in, at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ipl.learners.learner import Batch, Learner
from ipl.support.progress import Reporter
from ipl.support.turns import no_turn, pass_turn
from ipl.training.step import (
    Recording,
    TrainingStep,
    batch_tensors,
    clone_batch,
    copy_batch,
    joined_losses,
    make_step,
)


class JoinedSteps:
    """The trainings of several threads; a thread takes part inside `with steps.entered():`."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Lets the trainings of this thread join those of others."""
        _thread.steps = self
        try:
            yield
        finally:
            _thread.steps = None

    def join(
        self,
        learner: Learner,
        optimiser: torch.optim.Optimizer,
        first: Batch,
        alone: Callable[[str], TrainingStep],
    ) -> TrainingStep:
        """Returns the step of a training; `alone` makes one that is done without the others."""
        group = self._groups.setdefault(_shapes(learner, first), _Group())
        return JoinedStep(learner, optimiser, first, group, alone)


class _ThreadSteps(threading.local):
    steps: JoinedSteps | None = None


_thread = _ThreadSteps()


def first_step(
    learner: Learner, optimiser: torch.optim.Optimizer, first: Batch, reporter: Reporter
) -> TrainingStep:
    """Returns the step of a training whose first batch this is; it joins others if it may."""

    def alone(why: str = "") -> TrainingStep:
        if why:
            reporter.say(f"Steps of {learner.name} are not computed together with others: {why}")
        return make_step(learner, optimiser, first, reporter)

    if _thread.steps is None or not learner.recordable:
        return alone()
    return _thread.steps.join(learner, optimiser, first, alone)


class JoinedStep(TrainingStep):
    """A training's part in the steps of a group."""

    def __init__(
        self,
        learner: Learner,
        optimiser: torch.optim.Optimizer,
        first: Batch,
        group: _Group,
        alone: Callable[[str], TrainingStep],
    ) -> None:
        super().__init__(learner, optimiser)
        self.group, self.batch, self._alone = group, clone_batch(first), alone
        self.is_given = False  # whether its batch waits for the next step
        self.wakes = threading.Event()
        self.loss: Tensor | None = None
        self.stream: torch.cuda.Stream | None = None
        self._own_step: TrainingStep | None = None
        group.enter(self)

    def __call__(self, batch: Batch) -> Tensor:
        """Updates the learner on a batch, together with the others, and returns the loss."""
        if self.group.problem is not None:
            self._own_step = self._own_step or self._alone(self.group.problem)
            return self._own_step(batch)
        copy_batch(batch, self.batch)
        if self.learner.backbone.device.type == "cuda":
            self.stream = torch.cuda.current_stream(self.learner.backbone.device)
        self.is_given = True
        self.wakes.clear()
        if not self.group.is_ready:
            pass_turn()  # others that begin now join in before the first step
        while self.is_given:
            if self.group.is_complete:
                self.group.step()
            else:
                with no_turn():
                    self.wakes.wait()
        if self.loss is None:  # steps of these learners cannot be joined
            return self(batch)
        return self.loss

    def close(self) -> None:
        """Leaves the group."""
        self.group.leave(self)


class _Group:
    """Trainings whose steps have the same shapes."""

    def __init__(self) -> None:
        self.members: list[JoinedStep] = []
        self.problem: str | None = None  # why their steps are not joined
        self._recording: Recording | None = None
        self._recorded: list[JoinedStep] = []

    @property
    def is_ready(self) -> bool:
        """Returns whether the members are the same as in the last step."""
        return self._recorded == self.members

    @property
    def is_complete(self) -> bool:
        """Returns whether every member has given its batch."""
        return all(member.is_given for member in self.members)

    def enter(self, member: JoinedStep) -> None:
        """Lets a training take part from the next step on."""
        self.members.append(member)

    def leave(self, member: JoinedStep) -> None:
        """Lets the others go on without a training."""
        self.members.remove(member)
        member.is_given = False
        if not self.members:
            self._recording, self._recorded, self.problem = None, [], None
        elif self.is_complete:
            self.members[0].wakes.set()  # it does the step that waited for this one

    def step(self) -> None:
        """Does a step of all members, whose batches are given."""
        on_gpu = self.members[0].learner.backbone.device.type == "cuda"
        losses: Sequence[Tensor | None]
        try:
            losses = self._replay() if on_gpu else self._compute()
        except Exception as error:  # one of them is to blame: it fails alone, and the others do not
            self.problem = f"{type(error).__name__}: {error}".splitlines()[0]
            self._recording, self._recorded = None, []
            losses = [None] * len(self.members)
            for member in self.members:
                member.optimiser.zero_grad()
        for member, loss in zip(self.members, losses, strict=True):
            member.loss, member.is_given = loss, False
            member.wakes.set()

    def _compute(self) -> Sequence[Tensor]:
        """Returns the losses of a step, one operation after the other."""
        for member in self.members:
            member.optimiser.zero_grad()
        losses = joined_losses([m.learner for m in self.members], [m.batch for m in self.members])
        torch.autograd.backward(losses)
        for member in self.members:
            member.optimiser.step()
        self._recorded = list(self.members)
        return [loss.detach() for loss in losses]

    def _replay(self) -> Sequence[Tensor]:
        """Returns the losses of a recorded step, which is recorded if the members have changed."""
        current = torch.cuda.current_stream()
        streams = [member.stream for member in self.members if member.stream is not None]
        for stream in streams:
            current.wait_stream(stream)
        if not self.is_ready or self._recording is None:
            torch.cuda.synchronize()  # the last recording may still run
            self._recording = None
            self._recording = Recording(self.members, [member.batch for member in self.members])
            self._recorded = list(self.members)
        found = torch.stack(self._recording.replay()).unbind()
        for stream in streams:
            stream.wait_stream(current)
        return found


def _shapes(learner: Learner, batch: Batch) -> Hashable:
    """Returns what the steps of two trainings must have in common to be joined.

    They have one backbone, which the members of a group keep alive.
    """
    prompts = learner.prompts
    return (
        type(learner),
        id(learner.backbone),
        prompts.class_names,
        prompts.class_rows,
        prompts.embeddings.shape,
        tuple((name, value.shape) for name, value in learner.named_parameters()),
        tuple((name, value.shape) for name, value in batch_tensors(batch).items()),
    )
