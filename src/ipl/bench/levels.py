"""The values that one setting takes while all others stay: the levels of an ablation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipl.support.errors import ConfigError
from ipl.words.pool import Pool

POOL = "pool"
BUNDLED, NO_NAMES, RANDOM = "bundled", "no-names", "random-"


@dataclass(frozen=True)
class Level:
    """One value of the setting that varies, and what it means for a plan."""

    value: Any = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Returns the value as a table shows it."""
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


def levels_of(vary: tuple[str, Sequence[Any]] | None, out: Path) -> tuple[Level, ...]:
    """Returns a level for each value; a single one that changes nothing if nothing varies."""
    if vary is None:
        return (Level(),)
    setting, values = vary
    levels = [
        Level(value, _pool(str(value), out) if setting == POOL else {setting: value})
        for value in values
    ]
    labels = [level.label for level in levels]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"{setting} has the value {label} twice; give each once.")
    return tuple(levels)


def _pool(value: str, out: Path) -> dict[str, Any]:
    """Returns the settings of a pool by name: bundled, no-names, random-N, or a file."""
    if value in (BUNDLED, NO_NAMES):
        return {"no_names": value == NO_NAMES, "words_file": None}
    if not value.startswith(RANDOM):
        return {"no_names": False, "words_file": value}
    count, words = value.removeprefix(RANDOM), Pool.bundled().words
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= len(words)):
        raise ConfigError(f"pool is {value!r}; N of random-N must be from 1 to {len(words)}.")
    # Always the same words, so that a grid that was stopped goes on with them.
    drawn = random.Random(0).sample(words, int(count))
    path = out / "pools" / f"{value}.txt"
    if not path.is_file():
        Pool.from_words(drawn, value).save(path)
    return {"no_names": False, "words_file": str(path)}
