"""What words bring over none: the same learner, dataset and seed with and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipl.bench.protocols.protocol import Values
from ipl.bench.statistics import PairedTest, paired_test
from ipl.bench.tables.cells import finished
from ipl.bench.tables.methods import Method, same

# Part of what "with words" means in the paper: layout and epochs are IPL's.
BELONGS_TO_WORDS = frozenset({"words", "epochs", "m", "interval"})


@dataclass(frozen=True)
class Gain:
    """The difference that words made, in percentage points, by measure."""

    arm: Method
    over: Method
    tests: dict[str, PairedTest]
    differs: tuple[str, ...] = ()  # other settings that differ between the two


def gains_of(arms: Sequence[Method], datasets: Sequence[str]) -> list[Gain]:
    """Returns the gain of every row with words over the plain rows of its learner."""
    gains = []
    for arm in arms:
        for over in arms:
            if arm.with_words and not over.with_words and arm.learner == over.learner:
                gain = _gain(arm, over, datasets)
                if gain is not None:
                    gains.append(gain)
    return gains


def _gain(arm: Method, over: Method, datasets: Sequence[str]) -> Gain | None:
    ours, theirs = _config(arm), _config(over)
    shared = [key for key in theirs if key in ours and key not in BELONGS_TO_WORDS]
    differs = [key for key in shared if same(ours[key]) != same(theirs[key])]
    # Rows that a setting tells apart on both sides are pairs only where it agrees.
    if any(key in arm.varied and key in over.varied for key in differs):
        return None
    if any(key in ("backbone", "weights", "shots") for key in differs):
        return None
    pairs: list[tuple[Values, Values]] = []
    for dataset in datasets:
        with_words, without = finished(arm, dataset), finished(over, dataset)
        seeds = sorted(with_words.keys() & without.keys())
        pairs += [(with_words[seed][1], without[seed][1]) for seed in seeds]
    if not pairs:
        return None
    tests = {
        measure: paired_test([one[measure] - other[measure] for one, other in pairs])
        for measure in pairs[0][0]
    }
    return Gain(arm, over, tests, tuple(differs))


def _config(arm: Method) -> dict[str, Any]:
    """Returns the settings of a row's first finished run: one that failed may not know all."""
    return next((run for run in arm.runs if run.done), arm.runs[0]).config()
