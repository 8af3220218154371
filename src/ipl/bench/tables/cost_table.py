"""What runs cost: time, memory, how busy the GPU was, and the paper's numbers beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from ipl.bench import paper_numbers as paper
from ipl.bench.records import RunRecord
from ipl.bench.tables.results import Result
from ipl.display.table import Table

GB = 1e9  # as in the paper
# The columns with numbers: what they show, and how many digits.
COLUMNS = {
    "fit_seconds": ("fit, s", 1),
    "word_seconds": ("a word, s", 2),
    "peak_memory": ("peak, GB", 2),
    "utilisation_mean": ("utilisation, %", 1),
}
NOTE = (
    "fit: without what came from the cache; a word: finding one in the pool; peak: of what tensors "
    "used on a GPU, else of the process. The paper's GPU is not known."
)


def cost_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """A row for each method and kind of device; None where nothing was recorded."""
    rows = []
    for result in results:
        for method in result.methods:
            by_device: dict[str, list[RunRecord]] = {}
            for run in method.runs:
                if run.done:
                    by_device.setdefault(run.device or "not recorded", []).append(run)
            for device, runs in by_device.items():
                names = {"protocol": result.title, "method": method.label, "device": device}
                names |= {"learner": method.learner, "arm": method.arm}
                rows.append(names | {"runs": len(runs)} | _costs(runs))
    return rows


def _costs(runs: Sequence[RunRecord]) -> dict[str, Any]:
    usages = [use for run in runs if run.profile and (use := run.profile["utilisation"])]
    # The steps of a search that was reused are the same, and count once.
    steps = [step for run in runs if run.selection for step in run.selection.steps]
    searches = dict.fromkeys((step.seconds, step.word, step.loss) for step in steps)
    return {
        "fit_seconds": _mean(run.seconds["fit"] for run in runs if run.seconds.get("fit")),
        # Of the prompt alone, without the search.
        "training_seconds": _mean(run.history.seconds for run in runs if run.history),
        "word_seconds": _mean(seconds for seconds, _, _ in searches),
        "peak_memory": max((run.peak_memory / GB for run in runs if run.peak_memory), default=None),
        "utilisation_mean": _mean(usage["mean"] for usage in usages),
    }


def _mean(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return statistics.mean(values) if values else None


def is_profiled(rows: Iterable[dict[str, Any]]) -> bool:
    """Whether any run was done with `--profile`."""
    return any(row["utilisation_mean"] is not None for row in rows)


def cost_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A section for each protocol, and one with the paper's numbers."""
    headings = [heading for heading, _ in COLUMNS.values()]
    columns = ["protocol", "method", "device", "runs", *headings]
    table = Table(columns, title="Cost", numbers=columns[3:])
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        section: list[list[str]] = []
        for row in (row for row in rows if row["protocol"] == protocol):
            cells = ["" if section else protocol, row["method"], row["device"], str(row["runs"])]
            for name, (_, digits) in COLUMNS.items():
                cells.append("-" if row[name] is None else f"{row[name]:,.{digits}f}")
            section.append(cells)
        table.add_section(section)
    plain, words = (f"{paper.PEAK_MEMORY[with_words]:.2f}" for with_words in (False, True))
    seconds = str(paper.TRAVERSAL_SECONDS)
    table.add_section(
        [
            ["paper", "without words", "its GPU", "", "", "", plain, ""],
            ["", "with words", "its GPU", "", "", seconds, words, ""],
        ]
    )
    table.notes.append(NOTE)
    return table
