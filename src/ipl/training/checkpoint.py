"""A training that was stopped goes on where it was: its state after an epoch, kept on disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl._version import __version__
from ipl.backbone.shots import LabelledFeatures
from ipl.learners.learner import Learner
from ipl.learners.recipe import Recipe
from ipl.support.cache import Cache, key_of
from ipl.training.history import EpochRecord

SECONDS_BETWEEN_WRITES = 20.0
KIND = "trainings"


@dataclass(frozen=True)
class TrainingState:
    """What an epoch leaves behind: named tensors, and all epochs so far."""

    tensors: Mapping[str, Tensor]  # on the CPU
    epochs: tuple[EpochRecord, ...]
    seconds: float


class Checkpoint:
    """Where one training stands, in a cache. Without a cache nothing is kept."""

    def __init__(self, cache: Cache | None = None, key: str = "") -> None:
        self.cache, self.key = cache, key
        self._state: TrainingState | None = None  # that is not written yet
        self._written = time.monotonic()

    @classmethod
    def of(
        cls,
        cache: Cache | None,
        learner: Learner,
        words: Sequence[str],
        shots: LabelledFeatures,
        views: int | str,
        recipe: Recipe,
        seed: int,
    ) -> Checkpoint:
        """Returns the bookmark of a training, named by all that decides how it goes."""
        if cache is None:
            return cls()
        kind = type(learner)
        images = shots.features.cpu().numpy()
        key = key_of(
            version=__version__,
            learner=f"{kind.__module__}.{kind.__qualname__}",
            backbone=learner.backbone.fingerprint,
            device=learner.backbone.device.type,
            classes=list(learner.prompts.class_names),
            placeholder=learner.placeholder,
            class_template=learner.class_template,
            words=list(words),
            images=hashlib.sha256(images.tobytes()).hexdigest(),
            labels=shots.labels.tolist(),
            views=views,
            recipe=asdict(recipe),
            seed=seed,
        )
        return cls(cache, key)

    def read(self) -> TrainingState | None:
        """Returns the state of the last epoch that was kept; None if there is none."""
        entry = self.cache.get(KIND, self.key) if self.cache else None
        if entry is None:
            return None
        try:
            epochs = tuple(EpochRecord(**epoch) for epoch in entry.facts["epochs"])
            seconds = float(entry.facts["seconds"])
        except (KeyError, TypeError, ValueError):  # not as we write it
            return None
        return TrainingState(
            {k: torch.from_numpy(v) for k, v in entry.arrays.items()}, epochs, seconds
        )

    def turn_to(self, state: TrainingState) -> None:
        """Takes note of a finished epoch; what is noted is written now and then."""
        if self.cache is None:
            return
        self._state = state
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Writes what has been noted since the last time."""
        if self.cache is None or self._state is None:
            return
        state, self._state = self._state, None
        arrays: dict[str, np.ndarray[Any, Any]] = {k: v.numpy() for k, v in state.tensors.items()}
        epochs = [asdict(epoch) for epoch in state.epochs]
        self.cache.put(KIND, self.key, arrays, {"epochs": epochs, "seconds": state.seconds})
        self._written = time.monotonic()

    def remove(self) -> None:
        """Forgets the training."""
        self._state = None
        if self.cache is not None:
            self.cache.drop(KIND, self.key)
