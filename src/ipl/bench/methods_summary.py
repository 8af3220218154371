"""Methods side by side: base, novel and HM over the same seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipl.bench.base_to_novel import BaseToNovel, mean_and_spread
from ipl.bench.tables.cells import MEASURE_NAMES
from ipl.display.table import Table

MEASURES = ("base", "novel", "hm")


def methods_summary(result: BaseToNovel, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Returns mean and spread of each measure per method, in percent, as plain values."""
    rows = []
    for method in methods:
        outcomes = result.of(method)
        row: dict[str, Any] = {"method": method, "seeds": [outcome.seed for outcome in outcomes]}
        for measure in MEASURES:
            mean, spread = mean_and_spread([100 * getattr(o, measure) for o in outcomes])
            row[measure] = {"mean": mean, "spread": spread}
        rows.append(row)
    return rows


def methods_table(summary: Sequence[dict[str, Any]]) -> Table:
    """Returns a table of the summary: mean and standard deviation in percent."""
    measures = [MEASURE_NAMES[measure] for measure in MEASURES]
    rows = [
        [row["method"], *(f"{row[m]['mean']:.1f} ± {row[m]['spread']:.1f}" for m in MEASURES)]
        for row in summary
    ]
    return Table(["method", *measures], rows, numbers=measures)
