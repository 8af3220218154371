"""Checkpoint: the state of a training after an epoch, from which it resumes.

It stays in the cache until the result is saved, so that nothing after the last epoch, such as a
full disk, can lose the training. Of a result that is never saved it stays for `SECONDS_KEPT`.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache as cached
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.support.cache import Cache, key_of
from ipl.training.history import EpochRecord
from ipl.training.schedule import learning_rate

SECONDS_BETWEEN_WRITES = 20.0
SECONDS_KEPT = 30 * 24 * 3600.0
KIND = "trainings"
ROOMS = ("backbone", "prompts", "learners", "training")  # whose code a training depends on


@dataclass(frozen=True)
class TrainingState:
    """The state of a training after an epoch: tensors by name, and all epochs so far."""

    tensors: Mapping[str, Tensor]  # on the CPU
    epochs: tuple[EpochRecord, ...]
    seconds: float


class Checkpoint:
    """The state of one training in a cache; without a cache nothing is written."""

    def __init__(self, cache: Cache | None = None, key: str = "") -> None:
        self.cache, self.key = cache, key
        self._state: TrainingState | None = None  # the latest, if it is not written yet
        self._written = time.monotonic()

    @classmethod
    def of(
        cls,
        cache: Cache | None,
        learner: Learner,
        words: Sequence[str],
        shots: LabelledFeatures,
        views: int | str,
        hyperparameters: Hyperparameters,
        seed: int,
    ) -> Checkpoint:
        """Returns the checkpoint of a training, under a key of everything that it depends on.

        That includes the code and the learning rate of every epoch, so that a training never
        resumes with another formula, schedule or template than it began with.
        """
        if cache is None:
            return cls()
        kind, features = type(learner), shots.features.cpu().numpy()
        key = key_of(
            code=code_sha256(kind),
            learner=f"{kind.__module__}.{kind.__qualname__}",
            backbone=learner.backbone.fingerprint,
            device=learner.backbone.device.type,
            classes=list(learner.prompts.class_names),
            start=_sha256(learner.state_dict()),
            layout=repr(learner.layout),
            placeholder=learner.placeholder,
            class_template=learner.class_template,
            words=list(words),
            images=hashlib.sha256(features.tobytes()).hexdigest(),
            labels=shots.labels.tolist(),
            views=views,
            hyperparameters=asdict(hyperparameters),
            rates=[
                learning_rate(e, hyperparameters.lr, hyperparameters.epochs)
                for e in range(hyperparameters.epochs)
            ],
            seed=seed,
        )
        return cls(cache, key)

    def read(self) -> TrainingState | None:
        """Returns the last state that was written, None without one."""
        entry = self.cache.get(KIND, self.key) if self.cache else None
        if entry is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in entry.arrays.items()}
        epochs = tuple(EpochRecord(**epoch) for epoch in entry.facts["epochs"])
        return TrainingState(tensors, epochs, entry.facts["seconds"])

    def update(self, state: TrainingState) -> None:
        """Takes the state after an epoch, and writes it if the last write was 20 seconds ago."""
        self._state = state
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Writes the latest state, unless it is already written."""
        if self.cache is None or self._state is None:
            return
        state, self._state = self._state, None
        arrays: dict[str, np.ndarray[Any, Any]] = {k: v.numpy() for k, v in state.tensors.items()}
        epochs = [asdict(epoch) for epoch in state.epochs]
        self.cache.put(KIND, self.key, arrays, {"epochs": epochs, "seconds": state.seconds})
        self._written = time.monotonic()

    @property
    def is_written(self) -> bool:
        """Returns whether there is a state in the cache."""
        return self.cache is not None and self.cache.has(KIND, self.key)

    def remove(self) -> None:
        """Removes the state."""
        self._state = None
        if self.cache is not None:
            self.cache.drop(KIND, self.key)


def remove_checkpoints(keys: Iterable[str], cache: Cache | None = None) -> None:
    """Removes checkpoints from the cache, once what they led to is on disk."""
    cache = cache or Cache()
    for key in keys:
        cache.drop(KIND, key)


def code_sha256(kind: type[Learner]) -> str:
    """Returns the SHA-256 of the code that trains a learner, including the learner's module."""
    module = sys.modules.get(kind.__module__)
    try:
        learner_code = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):  # defined in an interactive session
        learner_code = ""
    return hashlib.sha256((_package_code() + learner_code).encode()).hexdigest()


@cached
def _package_code() -> str:
    package = Path(__file__).parents[1]
    files = sorted(path for room in ROOMS for path in (package / room).glob("*.py"))
    return "".join(path.read_text(encoding="utf-8") for path in files)


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
