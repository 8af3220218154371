"""One large search for words on a Ray cluster: each worker searches its part of the pool."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from ipl.backbone.loading import load_backbone
from ipl.bench.engines.ray_engine import RETRIES, connect, import_ray, share
from ipl.support.errors import ConfigError, IplError
from ipl.words.modes import Mode, Search, SearchStep, Start
from ipl.words.scorer import SentenceScorer
from ipl.words.template import Template

Array = np.ndarray[Any, Any]


def spread_over_ray(workers: int, address: str | None = None, device: str = "auto") -> Start:
    """Returns a `start` for `select_words` that searches on Ray workers and finds the same words.

    The best twenty of the pool are among the best twenty of its parts, so what is proved of each
    part is proved of the pool.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}; it must be 1 or more.")
    import_ray()
    return partial(_spread, workers=workers, address=address, device=device)


def _spread(
    search: Search,
    scorer: SentenceScorer,
    words: tuple[str, ...],
    workers: int,
    address: str | None,
    device: str,
) -> Mode:
    if not search.resumable:  # approximate results for the parts do not add up to one for the pool
        raise ConfigError(
            f"search is {search.mode!r}; over Ray workers it can be exact or exhaustive."
        )
    return _Parts(scorer, words, search, workers, address, device)


class _Parts(Mode):
    """Asks workers about the parts of the pool, and puts their answers together."""

    def __init__(
        self,
        scorer: SentenceScorer,
        words: tuple[str, ...],
        search: Search,
        workers: int,
        address: str | None,
        device: str,
    ) -> None:
        super().__init__(scorer, words, search)
        self.ray = import_ray()
        connect(self.ray, address)
        resources = share(self.ray, workers, device)
        if "num_gpus" in resources:
            resources["num_gpus"] = 1  # a part fills one
        self.task = self.ray.remote(_part_losses).options(
            max_retries=RETRIES, scheduling_strategy="SPREAD", **resources
        )
        self.problem = self.ray.put(_problem(scorer, search, device))
        self.name = uuid4().hex
        positions = np.array_split(np.arange(len(words)), min(workers, len(words)))
        self.slices = [slice(int(part[0]), int(part[-1]) + 1) for part in positions]

    def losses(self, step: SearchStep) -> Array:
        """Returns the losses that the workers computed exactly, NaN elsewhere."""
        losses, margins = np.full(len(self.words), np.nan), []
        pending = {
            self.task.remote(
                self.name,
                self.problem,
                self.words[part],
                (step.selected, step.penalty[part], step.loss),
            ): part
            for part in self.slices
        }
        while pending:
            (ready, *_), _ = self.ray.wait(list(pending), num_returns=1)
            part = pending.pop(ready)
            losses[part], margin = self._answer(ready)
            margins.append(margin)
            step.advance(part.stop - part.start)
        self.margin = max(margins)
        return losses

    def _answer(self, reference: Any) -> tuple[Array, float]:
        errors = self.ray.exceptions
        try:
            answer: tuple[Array, float] = self.ray.get(reference)
        except errors.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, IplError) else error) from None
        except errors.RayError as error:  # its worker or node died once too often
            line = (str(error).strip().splitlines() or [""])[-1].strip()
            kind = type(error).__name__
            raise IplError(f"The cluster lost the search: {kind}: {line}") from error
        return answer


_current: dict[str, Any] = {}  # of a Ray worker process: its search, and the parts it has


def _part_losses(
    name: str,
    problem: dict[str, Any],
    words: tuple[str, ...],
    state: tuple[tuple[str, ...], Array, float],
) -> tuple[Array, float]:
    """Returns the losses of a part's words, and how far off the lowest precision may have been."""
    if _current.get("name") != name:
        _current.clear()
        _current.update(name=name, backbone=load_backbone(*problem["backbone"]), parts={})
    if words[0] not in _current["parts"]:
        scorer = SentenceScorer(
            _current["backbone"],
            problem["classes"],
            torch.tensor(problem["images"]),
            torch.tensor(problem["labels"]),
            Template(problem["template"]),
            memory=problem["memory"],
        )
        _current["parts"][words[0]] = problem["search"].start(scorer, words)
    mode = _current["parts"][words[0]]
    selected, penalty, loss = state
    return mode.losses(SearchStep(selected, penalty.copy(), loss, _nothing)), mode.margin


def _problem(scorer: SentenceScorer, search: Search, device: str) -> dict[str, Any]:
    backbone, loss = scorer.backbone, scorer.cross_entropy
    return {
        "backbone": (backbone.name, device, backbone.precision),
        "classes": scorer.class_names,
        "images": loss.images.cpu().float().numpy(),  # they were fp32 before
        "labels": loss.labels.cpu().numpy(),
        "template": scorer.template.text,
        "memory": scorer.memory,
        "search": replace(search, recall=False),
    }


def _nothing(steps: int = 1) -> None:
    del steps
