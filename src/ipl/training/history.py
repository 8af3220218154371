"""What happened in training, in plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """One epoch; `word` is the word that entered before it."""

    epoch: int
    lr: float
    loss: float
    word: str | None


@dataclass(frozen=True)
class TrainingRecord:
    """All epochs, and how long they took together."""

    epochs: tuple[EpochRecord, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {"epochs": [asdict(epoch) for epoch in self.epochs], "seconds": self.seconds}
