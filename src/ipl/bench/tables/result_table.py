"""From runs to tables: one for base-to-novel, one for each source across datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ipl.bench.plan import ZERO_SHOT
from ipl.bench.protocols.registry import PROTOCOLS
from ipl.bench.records import RunRecord
from ipl.bench.tables.cells import AVERAGE, Cell, average_of, entry_of, finished
from ipl.bench.tables.gains import Gain, gains_of
from ipl.bench.tables.methods import Method, common_settings, methods_of
from ipl.bench.tables.paper import WORDS
from ipl.bench.tables.paper_comparison import published_settings

POCKET = "pocket"
# By its card; the labels of the last four only of up to 20 validation images a class, all classes.
SEEN_BY_POCKET = (
    *("imagenet", "food101", "stanford_cars"),
    *("caltech101", "oxford_pets", "oxford_flowers", "eurosat"),
)


@dataclass(frozen=True)
class ResultTable:
    """All methods of a protocol on all its datasets."""

    protocol: str
    source: str | None  # what was trained on, across datasets
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    averaged: tuple[str, ...]  # the datasets behind the average
    arms: tuple[Method, ...]
    entries: tuple[Cell, ...]
    gains: tuple[Gain, ...]
    common: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, dataset: str) -> list[Cell]:
        """Returns the entries of a dataset, or of the average, in the order of the methods."""
        return [entry for entry in self.entries if entry.dataset == dataset]


def build_tables(runs: Sequence[RunRecord]) -> list[ResultTable]:
    """Returns a table for base-to-novel, and one for each source across datasets and domains."""
    groups: dict[tuple[int, str], list[RunRecord]] = {}
    for run in runs:
        source = run.dataset if run.rules.has_source else ""
        groups.setdefault((list(PROTOCOLS).index(run.protocol), source), []).append(run)
    return [_table(groups[key]) for key in sorted(groups)]


def _table(runs: Sequence[RunRecord]) -> ResultTable:
    protocol = runs[0].rules
    source = runs[0].dataset if protocol.has_source else None
    datasets = _datasets(runs, source)
    averaged = tuple(name for name in datasets if name != source)
    arms = methods_of(runs)
    drawn = {run.seed for run in runs if run.learner != ZERO_SHOT}
    entries = []
    for arm in arms:
        # Of zero-shot nothing is drawn: one run says it all.
        expected = {run.seed for run in arm.runs} if arm.learner == ZERO_SHOT else drawn
        results = {name: finished(arm, name) for name in datasets}
        parts = [entry_of(arm, name, results[name], sorted(expected)) for name in datasets]
        averages = [part for part in parts if part.dataset in averaged]
        entries += [*parts, average_of(arm, averages, results, source)]
    return ResultTable(
        protocol.name,
        source,
        tuple(protocol.measures),
        datasets,
        averaged,
        tuple(arms),
        tuple(sorted(entries, key=lambda entry: [*datasets, AVERAGE].index(entry.dataset))),
        tuple(gains_of(arms, averaged)),
        common_settings(runs),
        (
            *_left_out(runs),
            *_seen_before(runs, datasets),
            *(note for arm in arms for note in _mixed(arm)),
        ),
    )


def _datasets(runs: Sequence[RunRecord], source: str | None) -> tuple[str, ...]:
    """Returns the datasets in the paper's order, the source first, others by name."""
    found = {run.dataset for run in runs}
    if source is not None:
        found |= {name for run in runs for name in (*run.accuracy, *run.targets)}
    known = [source, *runs[0].rules.paper_datasets(source)]
    order = {name: place for place, name in enumerate(known) if name}
    return tuple(sorted(found, key=lambda name: (order.get(name, len(order)), name)))


def _left_out(runs: Sequence[RunRecord]) -> list[str]:
    """Returns a note for each test set of which images are missing or cannot be read."""
    notes = []
    for what, why in (("missing_images", "are missing"), ("unreadable_images", "cannot be read")):
        most: dict[str, int] = {}
        for run in runs:
            for part, count in (run.data.get(what) or {}).items():
                name = f"{run.dataset} ({part})" if part in run.rules.parts else part
                most[name] = max(most.get(name, 0), int(count))
        notes += [
            f"{count:,} test images of {name} {why}; accuracies are over the rest."
            for name, count in most.items()
            if count
        ]
    return notes


def _seen_before(runs: Sequence[RunRecord], datasets: Sequence[str]) -> list[str]:
    """Returns a note on datasets that the bundled backbone was itself trained with."""
    known = [name for name in datasets if name in SEEN_BY_POCKET]
    if not known or not any(run.backbone.get("name") == POCKET for run in runs):
        return []
    return [
        f"PocketCLIP ({POCKET}) was itself trained with images and class names of "
        f"{', '.join(known)}: there no class is new to it, and high numbers say little."
    ]


def _mixed(arm: Method) -> list[str]:
    """Returns a note for each setting that differs between datasets other than in the paper."""
    notes = []
    for key in ("words", "lambda_", "epochs"):
        values: dict[str, list[str]] = {}
        as_published = True
        for run in arm.runs:
            published = {**published_settings(run), "words": WORDS.get(run.dataset)}
            as_published &= run.config().get(key) == published.get(key)
            values.setdefault(str(run.config().get(key)), []).append(run.dataset)
        if len(values) > 1 and not as_published:
            told = [
                f"{value}: {', '.join(dict.fromkeys(names))}" for value, names in values.items()
            ]
            name = key.rstrip("_")
            notes.append(f"{arm.label} has different {name} for datasets ({'; '.join(told)}).")
    return notes
