"""What words bring over none: the same learner, dataset and seed with and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipl.bench.protocols.protocol import Values
from ipl.bench.protocols.registry import all_measures
from ipl.bench.statistics import PairedTest, paired_test
from ipl.bench.tables.cells import finished_runs
from ipl.bench.tables.methods import Method, canonical
from ipl.display.table import Table

# Part of what "with words" means in the paper: layout and epochs are IPL's.
BELONGS_TO_WORDS = frozenset({"words", "epochs", "m", "interval"})


@dataclass(frozen=True)
class Gain:
    """The difference that words made, in percentage points, by measure."""

    method: Method
    baseline: Method
    tests: dict[str, PairedTest]
    differences: tuple[str, ...] = ()  # other settings that differ between the two


def find_gains(methods: Sequence[Method], datasets: Sequence[str]) -> list[Gain]:
    """Returns the gain of every method with words over those of its learner without."""
    gains = []
    for method in methods:
        for baseline in methods:
            paired = method.with_words and not baseline.with_words
            if paired and method.learner == baseline.learner:
                gain = _gain(method, baseline, datasets)
                if gain is not None:
                    gains.append(gain)
    return gains


def _gain(method: Method, baseline: Method, datasets: Sequence[str]) -> Gain | None:
    with_words, without = _config(method), _config(baseline)
    shared = [key for key in without if key in with_words and key not in BELONGS_TO_WORDS]
    differences = [key for key in shared if canonical(with_words[key]) != canonical(without[key])]
    # Rows that a setting tells apart on both sides are pairs only where it agrees.
    if any(key in method.varied and key in baseline.varied for key in differences):
        return None
    if any(key in ("backbone", "weights", "shots") for key in differences):
        return None
    pairs: list[tuple[Values, Values]] = []
    for dataset in datasets:
        left, right = finished_runs(method, dataset), finished_runs(baseline, dataset)
        pairs += [(left[seed][1], right[seed][1]) for seed in sorted(left.keys() & right.keys())]
    if not pairs:
        return None
    tests = {
        measure: paired_test([left[measure] - right[measure] for left, right in pairs])
        for measure in pairs[0][0]
    }
    return Gain(method, baseline, tests, tuple(differences))


def _config(method: Method) -> dict[str, Any]:
    """Returns the settings of a row's first finished run: one that failed may not know all."""
    return next((run for run in method.runs if run.done), method.runs[0]).config()


def gains_table(gains: Sequence[Gain], protocol: str) -> Table:
    """Returns the gains with their paired tests; `protocol` is its title in the heading."""
    columns = ["with words", "without", "measure", "difference", "pairs", "p"]
    table = Table(
        columns,
        title=f"Gain of words, {protocol[0].lower()}{protocol[1:]}",
        caption="Mean difference in percentage points; a pair is one dataset and one seed",
        numbers=columns[3:],
    )
    for gain in gains:
        others = ", ".join(gain.differences)
        mark = table.footnote_mark([f"The two also differ in {others}."] if others else [])
        names = [gain.method.label, gain.baseline.label + mark]
        rows = []
        for measure, test in gain.tests.items():
            p = "<0.0001" if test.p < 1e-4 else f"{test.p:.4f}"
            numbers = [f"{test.difference:+.2f}", str(test.pairs), p]
            rows.append([*names, all_measures()[measure], *numbers])
            names = ["", ""]
        table.add_section(rows)
    for name in dict.fromkeys(test.test for gain in gains for test in gain.tests.values()):
        table.notes.append(f"p: {name}; if words changed nothing, either sign would be as likely.")
    return table
