"""TrainingHistory: the epochs of a training, as records and saved runs keep them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TrainingStarted:
    """A training begins; the epochs that a reporter hears of next are its own.

    A fit has several if it tries several numbers of words, or compares with a prompt without words.
    """

    name: str


@dataclass(frozen=True)
class EpochRecord:
    """One epoch; `loss` is the mean over its images, each before its own step."""

    epoch: int
    lr: float
    loss: float
    word: str | None  # that entered before it


@dataclass(frozen=True)
class TrainingHistory:
    """The epochs of a training, and how long they took together."""

    epochs: tuple[EpochRecord, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "seconds": self.seconds}
