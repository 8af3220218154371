"""A logger that keeps everything in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipl.loggers import RunLogger


class RecordingLogger(RunLogger):
    """Keeps what it is given; raises OSError from the call with a number of its own on."""

    def __init__(self, target: str = "memory", fails_at: int | None = None) -> None:
        super().__init__(target)
        self.fails_at, self.calls = fails_at, 0
        self.runs: list[tuple[str, Mapping[str, Any]]] = []
        self.numbers: dict[str, list[tuple[int | None, float]]] = {}
        self.texts: dict[str, list[tuple[int | None, str]]] = {}
        self.files: dict[str, bytes] = {}
        self.ends: list[bool] = []

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        self._count()
        self.runs.append((name, settings))

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        self._count()
        for name, value in values.items():
            self.numbers.setdefault(name, []).append((step, value))

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        self._count()
        self.texts.setdefault(name, []).append((step, text))

    def log_file(self, name: str, content: bytes) -> None:
        self._count()
        self.files[name] = content

    def finish(self, failed: bool = False) -> None:
        self._count()
        self.ends.append(failed)

    def _count(self) -> None:
        self.calls += 1
        if self.fails_at is not None and self.calls >= self.fails_at:
            raise OSError(28, "No space left on device")
