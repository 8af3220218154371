"""Several computations that go through the frozen towers together.

The losses of several learners differ in their vectors, but their prompts and images have the same
shapes. As one batch they take a GPU hardly longer than one of them: it spends most of a step on
starting kernels, not on running them.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.replaced_rows import Enter, ReplacedRows
from ipl.backbone.shared_prefix import SharedPrompts

Result = TypeVar("Result")


class JoinedBackbone:
    """A backbone whose towers wait for the same call of other computations.

    It stands in for a backbone while a loss is computed; everything but the two towers is the
    backbone's own.
    """

    def __init__(self, backbone: Backbone, ask: Callable[[TowerCall], Tensor]) -> None:
        self._backbone, self._ask = backbone, ask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def encode_shared(self, prompts: SharedPrompts, enter: Enter | None = None) -> Tensor:
        """Encode prompts, as `Backbone.encode_shared` does."""
        return self._ask(SharedCall(self._backbone, enter, prompts))

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Encode images, as `Backbone.encode_image` does."""
        return self._ask(ImageCall(self._backbone, enter, pixels, prompts))


def run_joined(
    backbone: Backbone, functions: Sequence[Callable[[JoinedBackbone], Result]]
) -> list[Result]:
    """Returns the results of functions that usually call the towers in the same order.

    Each function runs in a thread of its own, but no two at a time: it goes on until it calls a
    tower, and when all have, the tower runs once for all. On a GPU each has a stream of its own.
    Calls that do not fit together are computed one after the other.

    Parameters
    ----------
    backbone : Backbone
        The frozen towers.
    functions : sequence of callable
        Each gets a backbone whose towers it shares with the others.
    """
    computations = [_Computation(backbone, function) for function in functions]
    try:
        while waiting := [each for each in computations if each.run()]:
            for call, features in zip(waiting, _answer([c.call for c in waiting]), strict=True):
                call.features = features
    finally:
        for each in computations:
            each.stop()
    around = _current_stream(backbone.device)
    for each in computations:
        _wait(around, each.stream)
    return [each.result for each in computations]


# -- the calls ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TowerCall(ABC):
    """A call of a tower; `stream` is where its arguments are computed and its result is used."""

    backbone: Backbone
    enter: Enter | None
    stream: torch.cuda.Stream | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stream", _current_stream(self.backbone.device))

    @property
    def tensors(self) -> list[Tensor]:
        """Returns the arguments: their shapes decide which calls fit, and one tower reads all."""
        deep = [self.enter.deep] if isinstance(self.enter, ReplacedRows) else []
        return [*self._arguments(), *deep]

    def fits(self, other: TowerCall) -> bool:
        """Returns whether both can be one call."""
        known = all(isinstance(call.enter, ReplacedRows | None) for call in (self, other))
        same = [type(self), getattr(self.enter, "start", None), *(t.shape for t in self.tensors)]
        theirs = [type(other), getattr(other.enter, "start", None)]
        return known and same == [*theirs, *(t.shape for t in other.tensors)]

    @property
    def most(self) -> int:
        """Returns how many such calls can be one."""
        return sys.maxsize

    @abstractmethod
    def _arguments(self) -> list[Tensor]:
        """Returns the tensors that the tower gets, without those that enter deeper layers."""

    @abstractmethod
    def run(self, others: Sequence[TowerCall] = ()) -> Tensor:
        """Returns the features of this call and of others that fit, one after the other."""


@dataclass(frozen=True)
class SharedCall(TowerCall):
    """A call of `encode_shared`."""

    prompts: SharedPrompts

    def _arguments(self) -> list[Tensor]:
        return [self.prompts.beginnings, self.prompts.endings, self.prompts.eos]

    @property
    def most(self) -> int:
        """Returns how many such calls can be one: more would be run in parts."""
        return self.backbone.prompts_at_once(self.prompts) // len(self.prompts.endings)

    def run(self, others: Sequence[TowerCall] = ()) -> Tensor:
        """Returns the features of this call and of others that fit, one after the other."""
        calls = [call for call in (self, *others) if isinstance(call, SharedCall)]
        given = [call.prompts for call in calls]
        prompts = SharedPrompts(
            torch.cat([each.beginnings for each in given]),
            torch.cat([each.endings for each in given]),
            torch.cat([each.eos for each in given]),
            self.prompts.own_rows,
        )
        return self.backbone.encode_shared(prompts, _join_rows([call.enter for call in calls]))


@dataclass(frozen=True)
class ImageCall(TowerCall):
    """A call of `encode_image`."""

    pixels: Tensor
    prompts: Tensor | None

    def _arguments(self) -> list[Tensor]:
        return [self.pixels, *([] if self.prompts is None else [self.prompts])]

    def run(self, others: Sequence[TowerCall] = ()) -> Tensor:
        """Returns the features of this call and of others that fit, one after the other."""
        calls = [call for call in (self, *others) if isinstance(call, ImageCall)]
        prompts = [
            call.prompts.expand(len(call.pixels), *call.prompts.shape[-2:])
            for call in calls
            if call.prompts is not None
        ]
        return self.backbone.encode_image(
            torch.cat([call.pixels for call in calls]),
            torch.cat(prompts) if prompts else None,
            _join_rows([call.enter for call in calls]),
        )


def _join_rows(enters: Sequence[Enter | None]) -> Enter | None:
    """Returns the rows that enter each part of a joined call."""
    rows = [enter for enter in enters if isinstance(enter, ReplacedRows)]
    if len(rows) < 2:
        return enters[0]
    return ReplacedRows(rows[0].start, torch.cat([each.sets for each in rows], dim=1))


def _answer(calls: Sequence[TowerCall]) -> list[Tensor]:
    """Returns the features of each call."""
    first, *others = calls
    if others and not (len(calls) <= first.most and all(map(first.fits, others))):
        return [features for call in calls for features in _answer([call])]
    for call in others:
        _wait(first.stream, call.stream, call.tensors)
    with _on(first.stream):
        parts = first.run(others).chunk(len(calls))
    for call, part in zip(others, parts[1:], strict=True):
        _wait(call.stream, first.stream, [part])
    return list(parts)


# -- the computations -----------------------------------------------------------------------------


class _StoppedComputation(BaseException):
    """Ends a computation, because another one failed."""


class _Computation(Generic[Result]):
    """A function in a thread that stands still whenever it calls a tower."""

    call: TowerCall
    features: Tensor  # the answer to the call
    result: Result

    def __init__(self, backbone: Backbone, function: Callable[[JoinedBackbone], Result]) -> None:
        self.stream = None
        if backbone.device.type == "cuda":
            # Of another pool than the streams of trainings, which must not be captured.
            self.stream = torch.cuda.Stream(backbone.device, priority=-1)
            _wait(self.stream, _current_stream(backbone.device))
        self._backbone, self._function = backbone, function
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = self._stopped = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def run(self) -> bool:
        """Goes on to the next call of a tower; returns False if there is none."""
        if not self._ended:
            self._go.release()
            self._stands.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return not self._ended

    def stop(self) -> None:
        """Ends the thread, also if it still waits for an answer."""
        self._stopped = True
        self._go.release()
        self._thread.join()

    def _work(self) -> None:
        self._go.acquire()
        try:
            if not self._stopped:
                with _on(self.stream):
                    self.result = self._function(JoinedBackbone(self._backbone, self._ask))
        except BaseException as error:  # for the thread that waits
            self._error = error
        self._ended = True
        self._stands.release()

    def _ask(self, call: TowerCall) -> Tensor:
        if self._ended:  # somebody has kept the stand-in
            return call.run()
        self.call = call
        self._stands.release()
        self._go.acquire()
        if self._stopped:
            raise _StoppedComputation
        del self.call  # what it holds is needed no longer
        return self.features


# -- streams --------------------------------------------------------------------------------------


def _current_stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def _on(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def _wait(
    stream: torch.cuda.Stream | None,
    other: torch.cuda.Stream | None,
    tensors: Sequence[Tensor] = (),
) -> None:
    """Lets a stream wait for another, whose tensors it uses."""
    if stream is not None and other is not None:
        stream.wait_stream(other)
        for tensor in tensors:
            tensor.record_stream(stream)
