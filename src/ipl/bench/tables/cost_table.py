"""What runs cost: time, memory, how busy the device was, and the paper's numbers beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ipl.bench.records import RunRecord
from ipl.bench.tables import paper
from ipl.bench.tables.methods import Method
from ipl.bench.tables.result_table import ResultTable
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.words.selection import SelectionStep

COST = "Cost"
GB = 1e9  # as in the paper
NVML = "nvml"  # a profile's source if it is of the GPU
UNKNOWN = "not recorded"


@dataclass(frozen=True)
class CostRow:
    """What a method's runs on one kind of device cost; None where nothing was recorded.

    Attributes
    ----------
    protocol, method, device : str
        The protocol and its source, the row of its table, and what the runs were done on.
    runs : int
        How many runs finished.
    fit_seconds : float or None
        The mean time of a fit, without what came from the cache.
    cached : int
        How many of the fits certainly took words from the cache: the search took longer than they.
    traversal_seconds : float or None
        The mean time to find one word in the pool, over different searches, whenever they were
        done.
    scored : float or None
        The share of the pool whose loss a traversal computed.
    peak_memory : float or None
        The largest peak of a fit in GB (1e9 bytes).
    utilisation_of : str or None
        "GPU", or "process" for the share of the CPU cores that the process used.
    utilisation_mean, utilisation_p95 : float or None
        In %; means over the runs.
    above_50 : float or None
        The share of the time, in %, with a utilisation above 50 %; mean over the runs.
    """

    protocol: str
    method: str
    device: str
    runs: int
    fit_seconds: float | None
    cached: int
    traversal_seconds: float | None
    scored: float | None
    peak_memory: float | None
    utilisation_of: str | None = None
    utilisation_mean: float | None = None
    utilisation_p95: float | None = None
    above_50: float | None = None


def cost_rows(results: Sequence[ResultTable]) -> list[CostRow]:
    """Returns a row for each method and kind of device, in the order of the result tables."""
    return [
        _row(", ".join(filter(None, (result.protocol, result.source))), method, device, runs)
        for result in results
        for method in result.methods
        for device, runs in _by_device(method).items()
    ]


def _by_device(method: Method) -> dict[str, list[RunRecord]]:
    devices: dict[str, list[RunRecord]] = {}
    for run in method.runs:
        if run.done:
            devices.setdefault(run.device or UNKNOWN, []).append(run)
    return devices


def _row(protocol: str, method: Method, device: str, runs: Sequence[RunRecord]) -> CostRow:
    fits = [run for run in runs if run.seconds.get("fit")]  # zero-shot has none
    steps = _traversals(runs)
    pool = sum(size for _, size in steps)
    peaks = [run.peak_memory / GB for run in runs if run.peak_memory]
    kind, usages = _usages(runs)
    return CostRow(
        protocol,
        method.label,
        device,
        len(runs),
        _mean(run.seconds["fit"] for run in fits),
        sum(_search_seconds(run) > run.seconds["fit"] for run in fits),
        _mean(step.seconds for step, _ in steps),
        sum(step.scored for step, _ in steps) / pool if pool else None,
        max(peaks, default=None),
        kind,
        _mean(usage["mean"] for usage in usages),
        _mean(usage["p95"] for usage in usages),
        _mean(100 * usage["above_50"] for usage in usages),
    )


def _search_seconds(run: RunRecord) -> float:
    return sum(step.seconds for step in run.selection.steps) if run.selection else 0.0


def _traversals(runs: Iterable[RunRecord]) -> list[tuple[SelectionStep, int]]:
    """Returns different steps and the sizes of their pools: a search that was reused counts once.

    A search from the cache still has the times of when it was done.
    """
    selections = [run.selection for run in runs if run.selection]
    steps = {
        (step.seconds, step.word, step.loss): (step, selection.pool_size)
        for selection in selections
        for step in selection.steps
    }
    return list(steps.values())


def _usages(runs: Iterable[RunRecord]) -> tuple[str | None, list[dict[str, float]]]:
    """Returns what was measured, and the utilisation of each run: of the GPU wherever there is."""
    by_source: dict[str, list[dict[str, float]]] = {"GPU": [], "process": []}
    for run in runs:
        if run.profile and run.profile.get("utilisation"):
            source = "GPU" if run.profile.get("source") == NVML else "process"
            by_source[source].append(run.profile["utilisation"])
    return next(((kind, usages) for kind, usages in by_source.items() if usages), (None, []))


def _mean(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return statistics.mean(values) if values else None


def is_profiled(rows: Iterable[CostRow]) -> bool:
    """Returns whether any run was done with `--profile`."""
    return any(row.utilisation_of for row in rows)


def cost_table(rows: Sequence[CostRow]) -> Table:
    """Returns a section for each protocol, and one with the paper's numbers."""
    devices = list(dict.fromkeys(row.device for row in rows))
    profiled = is_profiled(rows)
    names = ["protocol", "method", *(["device"] if len(devices) > 1 else [])]
    numbers = ["runs", "fit, s", "traversal, s", "peak, GB"]
    if profiled:
        numbers += ["utilisation, %", "p95, %", "above 50 %"]
    table = Table(
        [*names, *numbers],
        title=COST,
        caption="Means over runs, of memory the largest peak"
        + (f", on {devices[0]}" if len(devices) == 1 else ""),
        numbers=numbers,
    )
    for protocol in dict.fromkeys(row.protocol for row in rows):
        section: list[list[str]] = []
        for row in (row for row in rows if row.protocol == protocol):
            cells = [row.device] if len(devices) > 1 else []
            cells += [str(row.runs), _seconds(row.fit_seconds) + table.footnote_mark(_reused(row))]
            cells += [_seconds(row.traversal_seconds), _digits(row.peak_memory, 2)]
            if profiled:
                cells.append(_digits(row.utilisation_mean) + table.footnote_mark(_measured(row)))
                cells += [_digits(row.utilisation_p95), _digits(row.above_50)]
            section.append(["" if section else protocol, row.method, *cells])
        table.add_section(section)
    theirs = ["its GPU"] if len(devices) > 1 else []
    gap = [""] * 3 if profiled else []
    seconds = str(paper.TRAVERSAL_SECONDS)
    table.add_section(
        [
            ["paper", "without words", *theirs, "", "", "", _paper_memory(False), *gap],
            ["", "with words", *theirs, "", "", seconds, _paper_memory(True), *gap],
        ]
    )
    table.notes += _notes(rows, profiled)
    return table


def _reused(row: CostRow) -> list[str]:
    """Returns a footnote on fits whose time says nothing about the search."""
    if not row.cached:
        return []
    count = several(row.cached, "run")
    return [f"In {count} words came from the cache; the time of a fit is without their search."]


def _measured(row: CostRow) -> list[str]:
    """Returns a footnote on a utilisation that is not the device's."""
    if row.utilisation_of != "process":
        return []
    return [
        "Of the process: the share of all CPU cores that it used. The utilisation of a GPU needs "
        "NVML, pip install 'ipl[scale]'."
    ]


def _notes(rows: Sequence[CostRow], profiled: bool) -> list[str]:
    notes = []
    if shares := [100 * row.scored for row in rows if row.scored is not None]:
        low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
        notes.append(
            "Traversal: finding one word in the pool. The paper computes the loss of every word, "
            f"our searches exactly only that of {low if low == high else f'{low} to {high}'} % of "
            "them. A search that several runs share counts once, with the time it took when it was "
            "done, perhaps on another device."
        )
    notes.append(
        "Peak: what tensors used on a GPU, else the resident memory of the process; 1 GB is 1e9 "
        "bytes."
    )
    if profiled:
        notes.append(
            "Utilisation is sampled ten times a second during the fit; above 50 %: the share of "
            "samples, in %. The utilisation of a GPU includes everything else that runs on it."
        )
    notes.append(
        "The paper's numbers are for CLIP ViT-B/16 on a GPU that we do not know: other hardware, "
        "so they do not compare speeds."
    )
    return notes


def _paper_memory(with_words: bool) -> str:
    return _digits(paper.PEAK_MEMORY[with_words], 2)


def _seconds(value: float | None) -> str:
    """Returns seconds with three digits or more, a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _digits(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def cost_to_csv(rows: Sequence[CostRow]) -> str:
    """Returns one line per method and device, in full precision."""
    lines = [["" if v is None else str(v) for v in asdict(row).values()] for row in rows]
    return Table(list(CostRow.__dataclass_fields__), lines).to_csv()


def cost_to_values(rows: Sequence[CostRow]) -> dict[str, Any]:
    """Returns the rows as plain values, and the paper's numbers."""
    return {
        "rows": [asdict(row) for row in rows],
        "paper": {
            "peak_memory": {"without": paper.PEAK_MEMORY[False], "with": paper.PEAK_MEMORY[True]},
            "traversal_seconds": paper.TRAVERSAL_SECONDS,
        },
    }


def plot_cost(rows: Sequence[CostRow]) -> dict[str, bytes] | None:
    """Returns bars of utilisation and peak memory as SVG and PNG files; None without numbers.

    If some of the runs were profiled, only these are drawn.
    """
    from ipl.display.plot_files import BarPanel, plot_bars

    profiled = is_profiled(rows)
    rows = [row for row in rows if (row.utilisation_of if profiled else row.peak_memory)]
    if not rows:
        return None
    shared = len({row.protocol for row in rows}) == 1, len({row.device for row in rows}) == 1
    labels = [
        ", ".join(
            [
                row.method,
                *([] if shared[0] else [row.protocol]),
                *([] if shared[1] else [row.device]),
            ]
        )
        for row in rows
    ]
    panels = []
    if profiled:
        panels.append(
            BarPanel(
                "utilisation in %, mean (bar) and p95 (line)",
                tuple(row.utilisation_mean for row in rows),
                tuple(f"{row.utilisation_mean:.0f} ({row.utilisation_of})" for row in rows),
                tuple(row.utilisation_p95 for row in rows),
                end=100.0,
            )
        )
    references = tuple(
        (gigabytes, f"paper, {'with' if with_words else 'without'} words: {gigabytes:.2f} GB")
        for with_words, gigabytes in paper.PEAK_MEMORY.items()
    )
    memory = [row.peak_memory for row in rows]
    texts = tuple(_digits(gigabytes, 2) for gigabytes in memory)
    panels.append(BarPanel("peak memory in GB", tuple(memory), texts, references=references))
    device = f" on {rows[0].device}" if shared[1] else ""
    return plot_bars(labels, panels, f"What a fit costs{device}; the paper's GPU is another")
