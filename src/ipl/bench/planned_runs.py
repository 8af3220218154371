"""The runs of a recipe on the data that is there, by level where a setting varies."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipl.bench.data import find_datasets
from ipl.bench.plan import Plan
from ipl.bench.recipe import BenchRecipe
from ipl.bench.records import BUNDLED
from ipl.bench.run import POOL, Run, expand
from ipl.support.errors import ConfigError, brief
from ipl.words.pool import Pool

NO_NAMES, RANDOM = "no-names", "random-"


@dataclass(frozen=True)
class Level:
    """One value of the setting that varies, and what it means for a plan."""

    value: Any = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Returns the value as a table shows it."""
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True)
class Planned:
    """The runs of a recipe in order, by level where a setting varies, and notes on the data."""

    levels: tuple[tuple[Level, tuple[Run, ...]], ...]
    notes: tuple[str, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)  # of the user's own datasets, by name

    @property
    def runs(self) -> tuple[Run, ...]:
        """Returns all runs, each once."""
        return tuple({run.id: run for _, runs in self.levels for run in runs}.values())


def plan_runs(recipe: BenchRecipe, data: Path | None, out: Path) -> Planned:
    """Returns the runs of a recipe with the data below a folder, and the user's own.

    Whether a run can be done with its data is for `check_data` to say.

    Parameters
    ----------
    recipe : BenchRecipe
        What to run.
    data : Path or None
        The folder that contains the published datasets; own data and `scenes` need none.
    out : Path
        The folder of the records; pools that a level draws are written there.

    Raises
    ------
    ConfigError, DataError
        If a setting cannot be used, or a dataset is unknown.
    """
    discovery = find_datasets(recipe.plan(), data)
    plan = discovery.plan
    names = (plan.source,) if plan.source else plan.datasets
    levels = []
    for level in levels_of(recipe.vary, out):
        runs: list[Run] = []
        for name in names:
            settings = plan.as_values()
            if plan.source is None:
                settings["datasets"] = [name]
            settings |= {**recipe.per_dataset.get(str(name), {}), **level.settings}
            runs += expand(Plan.from_values(settings))
        levels.append((level, tuple(runs)))
    return Planned(tuple(levels), discovery.notes, discovery.paths)


def levels_of(vary: tuple[str, Sequence[Any]] | None, out: Path) -> tuple[Level, ...]:
    """Returns a level for each value; a single one that changes nothing if nothing varies."""
    if vary is None:
        return (Level(),)
    setting, values = vary
    levels = [
        Level(value, _pool_settings(str(value), out) if setting == POOL else {setting: value})
        for value in values
    ]
    labels = [level.label for level in levels]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"{setting} has the value {label} twice; give each once.")
    return tuple(levels)


def _pool_settings(value: str, out: Path) -> dict[str, Any]:
    """Returns the settings of a pool by name: bundled, no-names, random-N, or a file."""
    if value in (BUNDLED, NO_NAMES):
        return {"no_names": value == NO_NAMES, "words_file": None}
    if not value.startswith(RANDOM):
        return {"no_names": False, "words_file": value}
    count, words = value.removeprefix(RANDOM), Pool.bundled().words
    is_number = count.isascii() and count.isdigit() and len(count) < 10
    if not (is_number and 1 <= int(count) <= len(words)):
        raise ConfigError(f"pool is {brief(value)}; N of random-N must be from 1 to {len(words)}.")
    # Always the same words, so that a grid that was stopped resumes with them.
    sample = random.Random(0).sample(words, int(count))
    path = out / "pools" / f"{value}.txt"
    if not path.is_file():
        Pool.from_words(sample, value).save(path)
    return {"no_names": False, "words_file": str(path)}
