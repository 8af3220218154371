"""One large search for words on a Ray cluster: each worker searches its part of the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from ipl.backbone.loading import load_backbone
from ipl.bench.engines.ray_engine import RETRIES, connect, import_ray, share
from ipl.support.errors import ConfigError, IplError
from ipl.words.greedy import StepLosses, score_words
from ipl.words.scorer import SentenceScorer
from ipl.words.template import Template

Array = np.ndarray[Any, Any]


class RaySearch:
    """A `score` for `select_words` that asks Ray workers, each for its part of the pool.

    It finds the same words: the best twenty of the pool are among the best twenty of its parts.
    """

    def __init__(self, workers: int, address: str | None = None, device: str = "auto") -> None:
        if workers < 1:
            raise ConfigError(f"workers is {workers}; it must be 1 or more.")
        self.workers, self.address, self.device = workers, address, device
        self.ray = import_ray()
        self.name = uuid4().hex
        self._task: Any = None  # of the first step
        self._problem: Any = None

    def __call__(
        self,
        search: str,
        scorer: SentenceScorer,
        words: Sequence[str],
        selected: Sequence[str],
        penalty: Array,
        advance: Callable[..., None],
    ) -> StepLosses:
        """Returns the losses that the workers computed in fp32, NaN elsewhere."""
        if self._task is None:
            self._connect(scorer)
        losses, margins = np.full(len(words), np.nan), []
        positions = np.array_split(np.arange(len(words)), min(self.workers, len(words)))
        parts = [slice(int(part[0]), int(part[-1]) + 1) for part in positions]
        pending = {
            self._task.remote(
                *(self.name, self._problem, search, words[part], selected, penalty[part])
            ): part
            for part in parts
        }
        while pending:
            (ready, *_), _ = self.ray.wait(list(pending), num_returns=1)
            part = pending.pop(ready)
            losses[part], margin = self._answer(ready)
            margins.append(margin)
            advance(part.stop - part.start)
        return StepLosses(losses, max(margins))

    def _connect(self, scorer: SentenceScorer) -> None:
        connect(self.ray, self.address)
        resources = share(self.ray, self.workers, self.device)
        if "num_gpus" in resources:
            resources["num_gpus"] = 1  # a part fills one
        self._task = self.ray.remote(_score_part).options(
            max_retries=RETRIES, scheduling_strategy="SPREAD", **resources
        )
        self._problem = self.ray.put(_problem(scorer, self.device))

    def _answer(self, reference: Any) -> StepLosses:
        errors = self.ray.exceptions
        try:
            answer: StepLosses = self.ray.get(reference)
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, IplError) else error) from None
        except errors.RayError as error:  # its worker or node died once too often
            line = (str(error).strip().splitlines() or [""])[-1].strip()
            kind = type(error).__name__
            raise IplError(f"The cluster lost the search: {kind}: {line}") from error
        return answer


_current: dict[str, Any] = {}  # of a Ray worker process: its search, and a scorer for each part


def _score_part(
    name: str,
    problem: dict[str, Any],
    search: str,
    words: Sequence[str],
    selected: Sequence[str],
    penalty: Array,
) -> StepLosses:
    """Returns the losses of a part's words."""
    if _current.get("name") != name:
        _current.clear()
        _current.update(name=name, backbone=load_backbone(*problem["backbone"]), parts={})
    if words[0] not in _current["parts"]:
        _current["parts"][words[0]] = SentenceScorer(
            _current["backbone"],
            problem["classes"],
            torch.tensor(problem["images"]),
            torch.tensor(problem["labels"]),
            Template(problem["template"]),
            memory=problem["memory"],
        )
    scorer = _current["parts"][words[0]]
    return score_words(search, scorer, words, selected, penalty, _nothing)


def _problem(scorer: SentenceScorer, device: str) -> dict[str, Any]:
    backbone, loss = scorer.backbone, scorer.cross_entropy
    return {
        "backbone": (backbone.name, device, backbone.precision),
        "classes": scorer.class_names,
        "images": loss.images.cpu().float().numpy(),  # they were fp32 before
        "labels": loss.labels.cpu().numpy(),
        "template": scorer.template.text,
        "memory": scorer.memory,
    }


def _nothing(steps: int = 1) -> None:
    del steps
