"""Ablations: the same grid with one setting at several levels, summed up level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipl.bench.levels import POOL, Level
from ipl.bench.recipe import Planned
from ipl.bench.records import NOT_RUN, RunRecord
from ipl.bench.run import Run
from ipl.bench.tables.cells import AVERAGE, Cell
from ipl.bench.tables.result_table import build_tables
from ipl.support.errors import DataError

# What `ipl ablate NAME` varies: a setting of a plan, or the pool of words.
ABLATIONS = {
    "penalty": "lambda",
    "k": "words",
    "interval": "interval",
    "template": "template",
    "pool": POOL,
}
AXES = {
    "penalty": "weight of redundancy, λ",
    "k": "number of words, k",
    "interval": "epochs after each word, t",
    "template": "sentence that scores words",
    "pool": "pool of words",
}


@dataclass(frozen=True)
class AblationRow:
    """One method at one level on one dataset, or its average."""

    level: Level
    method: str
    with_words: bool
    entry: Cell


@dataclass(frozen=True)
class Ablation:
    """What became of a setting's levels."""

    name: str
    protocol: str
    source: str | None
    measures: tuple[str, ...]
    datasets: tuple[str, ...]  # with the average, if there are several
    rows: tuple[AblationRow, ...]
    common: dict[str, Any] = field(default_factory=dict)
    same_words: bool = False  # every level chose the same: it could change nothing else
    notes: tuple[str, ...] = ()

    @property
    def axis(self) -> str:
        """Returns what the level is, for an axis or a column."""
        return AXES[self.name]

    def of(self, dataset: str) -> list[AblationRow]:
        """Returns the rows of a dataset, or of the average, method by method."""
        rows = [row for row in self.rows if row.entry.dataset == dataset]
        methods = list(dict.fromkeys(row.method for row in rows))
        return sorted(rows, key=lambda row: methods.index(row.method))


def sum_up(name: str, planned: Planned, results: Sequence[RunRecord]) -> Ablation:
    """Returns the ablation of that name from the records of its runs; others are not looked at."""
    by_id = {result.id: result for result in results}
    rows: list[AblationRow] = []
    tables = []
    for level, runs in planned.levels:
        (table,) = build_tables([by_id.get(run.id) or _not_run(run) for run in runs])
        shown = [*table.datasets, *([AVERAGE] if len(table.averaged) > 1 else [])]
        tables.append((table, shown))
        rows += [
            AblationRow(level, entry.arm.label, entry.arm.with_words, entry)
            for entry in table.entries
            if entry.dataset in shown
        ]
    if not any(row.entry.numbers for row in rows):
        errors = [by_id[run.id].error for run in planned.runs if run.id in by_id]
        first = f" The first failed: {errors[0]}" if errors else ""
        raise DataError(f"None of the ablation's runs is done; there is nothing to show.{first}")
    table, shown = tables[0]
    common = _shared([table.common for table, _ in tables])
    return Ablation(
        name,
        table.protocol,
        table.source,
        table.measures,
        tuple(shown),
        tuple(rows),
        common,
        _same_words(planned, by_id),
        table.notes,
    )


def _same_words(planned: Planned, results: Mapping[str, RunRecord]) -> bool:
    """Returns whether all levels have words, and each the same for a dataset and a seed."""
    chosen: dict[tuple[str, str, int], set[tuple[str, ...]]] = {}
    for _, runs in planned.levels:
        for run in runs:
            if run.words and run.id in results and results[run.id].done:
                place = (run.dataset, run.learner, run.seed)
                chosen.setdefault(place, set()).add(results[run.id].chosen)
    return bool(chosen) and all(len(words) == 1 for words in chosen.values())


def _not_run(run: Run) -> RunRecord:
    """Returns a result that says that a run has no record."""
    return RunRecord(
        id=run.id,
        protocol=run.protocol,
        dataset=run.dataset,
        learner=run.learner,
        words=run.words,
        seed=run.seed,
        shots=run.shots,
        settings=dict(run.settings),
        backbone={"name": run.backbone, "precision": run.precision},
        data={},
        accuracy={},
        error=NOT_RUN,
        targets=run.targets,
    )


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = settings[0]
    return {k: v for k, v in first.items() if all(k in s and s[k] == v for s in settings)}
