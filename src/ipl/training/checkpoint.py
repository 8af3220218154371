"""Checkpoint: the state of a training after an epoch, from which `loop.train` resumes.

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

import torch
from torch import Tensor

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.support.cache import Cache, key_of
from ipl.support.plain_values import from_plain
from ipl.training.history import TrainingHistory

SECONDS_BETWEEN_WRITES = 20.0
SECONDS_KEPT = 30 * 24 * 3600.0
KIND = "trainings"
# Whose code a training depends on.
FOLDERS = ("backbone", "kernels", "prompts", "learners", "training")


@dataclass(frozen=True)
class TrainingState:
    """The state of a training after an epoch: tensors by name, and all epochs so far."""

    tensors: Mapping[str, Tensor]  # on the CPU
    history: TrainingHistory


class Checkpoint:
    """The state of one training in a cache."""

    def __init__(self, cache: Cache, key: str) -> None:
        self.cache, self.key = cache, key
        self._state: TrainingState | None = None  # the latest, if it is not written yet
        self._written = time.monotonic()

    def read(self) -> TrainingState | None:
        """The last state that was written, None without one."""
        entry = self.cache.get(KIND, self.key)
        if entry is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in entry.arrays.items()}
        return TrainingState(tensors, from_plain(TrainingHistory, entry.facts))

    def update(self, state: TrainingState) -> None:
        """Take the state after an epoch, and write it if the last write was 20 seconds ago."""
        self._state = state
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the latest state, unless it is already written."""
        if self._state is not None:
            arrays = {name: tensor.numpy() for name, tensor in self._state.tensors.items()}
            self.cache.put(KIND, self.key, arrays, self._state.history.as_dict())
            self._state, self._written = None, time.monotonic()

    @property
    def is_written(self) -> bool:
        return self.cache.has(KIND, self.key)

    def remove(self) -> None:
        self._state = None
        self.cache.drop(KIND, self.key)


def remove_checkpoints(keys: Iterable[str], cache: Cache | None = None) -> None:
    """Remove checkpoints from the cache, once what they led to is on disk."""
    for key in keys:
        (cache or Cache()).drop(KIND, key)


def training_key(
    learner: Learner,
    words: Sequence[str],
    shots: LabelledFeatures,
    views: int | str,
    hyperparameters: Hyperparameters,
    seed: int,
) -> str:
    """The key of a training: a hash of everything that it depends on.

    That includes the code, so that a training never resumes with another formula or schedule.
    """
    kind, features = type(learner), shots.features.cpu().numpy()
    return key_of(
        code=_code_sha256(kind),
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
        seed=seed,
    )


def _code_sha256(kind: type[Learner]) -> str:
    """The SHA-256 of the code that trains a learner, including the learner's module."""
    try:
        learner_code = inspect.getsource(sys.modules[kind.__module__])
    except (KeyError, OSError, TypeError):  # defined in an interactive session
        learner_code = ""
    return hashlib.sha256((_package_code() + learner_code).encode()).hexdigest()


@cached
def _package_code() -> str:
    package = Path(__file__).parents[1]
    files = sorted(path for name in FOLDERS for path in (package / name).glob("*.py"))
    return "".join(path.read_text(encoding="utf-8") for path in files)


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
