"""What runs cost: time, memory, how busy the device was, and the paper's numbers beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ipl.bench.records import RunRecord, Utilisation
from ipl.bench.tables import paper
from ipl.bench.tables.methods import Method
from ipl.bench.tables.result_table import ResultTable
from ipl.display.table import Table

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
    traversal_seconds : float or None
        The mean time to find one word in the pool, over different searches, whenever they were
        done.
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
    traversal_seconds: float | None
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
    peaks = [run.peak_memory / GB for run in runs if run.peak_memory]
    kind, usages = _usages(runs)
    return CostRow(
        protocol,
        method.label,
        device,
        len(runs),
        _mean(run.seconds["fit"] for run in runs if run.seconds.get("fit")),  # zero-shot has none
        _mean(_traversals(runs)),
        max(peaks, default=None),
        kind,
        _mean(usage["mean"] for usage in usages),
        _mean(usage["p95"] for usage in usages),
        _mean(100 * usage["above_50"] for usage in usages),
    )


def _traversals(runs: Iterable[RunRecord]) -> list[float]:
    """Returns the seconds of different steps: those of a search that was reused count once.

    A search from the cache still has the times of when it was done.
    """
    steps = [step for run in runs if run.selection for step in run.selection.steps]
    different = dict.fromkeys((step.seconds, step.word, step.loss) for step in steps)
    return [seconds for seconds, _, _ in different]


def _usages(runs: Iterable[RunRecord]) -> tuple[str | None, list[Utilisation]]:
    """Returns what was measured, and the utilisation of each run: of the GPU wherever there is."""
    by_source: dict[str, list[Utilisation]] = {"GPU": [], "process": []}
    for run in runs:
        if run.profile and (utilisation := run.profile["utilisation"]):
            source = "GPU" if run.profile["source"] == NVML else "process"
            by_source[source].append(utilisation)
    return next(((kind, usages) for kind, usages in by_source.items() if usages), (None, []))


def _mean(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return statistics.mean(values) if values else None


def is_profiled(rows: Iterable[CostRow]) -> bool:
    """Returns whether any run was done with `--profile`."""
    return any(row.utilisation_of for row in rows)


def cost_table(rows: Sequence[CostRow]) -> Table:
    """Returns a section for each protocol, and one with the paper's numbers."""
    profiled = is_profiled(rows)
    numbers = ["runs", "fit, s", "traversal, s", "peak, GB"]
    if profiled:
        numbers += ["utilisation, %", "p95, %", "above 50 %"]
    table = Table(
        ["protocol", "method", "device", *numbers],
        title=COST,
        caption="Means over runs, of memory the largest peak",
        numbers=numbers,
    )
    for protocol in dict.fromkeys(row.protocol for row in rows):
        section: list[list[str]] = []
        for row in (row for row in rows if row.protocol == protocol):
            cells = ["" if section else protocol, row.method, row.device, str(row.runs)]
            cells += [_digits(row.fit_seconds), _digits(row.traversal_seconds, 2)]
            cells.append(_digits(row.peak_memory, 2))
            if profiled:
                of = " (process)" if row.utilisation_of == "process" else ""
                cells += [_digits(row.utilisation_mean) + of, _digits(row.utilisation_p95)]
                cells.append(_digits(row.above_50))
            section.append(cells)
        table.add_section(section)
    gap = [""] * (len(numbers) - 4)
    plain, words = (f"{paper.PEAK_MEMORY[with_words]:.2f}" for with_words in (False, True))
    table.add_section(
        [
            ["paper", "without words", "its GPU", "", "", "", plain, *gap],
            ["", "with words", "its GPU", "", "", str(paper.TRAVERSAL_SECONDS), words, *gap],
        ]
    )
    table.notes += [
        "fit: without what came from the cache. traversal: finding one word in the pool; a search "
        "that several runs share counts once, with the time it took when it was done, perhaps on "
        "another device.",
        "peak: what tensors used on a GPU, else the resident memory of the process; 1 GB is 1e9 "
        "bytes.",
        "The paper's numbers are for CLIP ViT-B/16 on a GPU that we do not know: other hardware, "
        "so they do not compare speeds.",
    ]
    if profiled:
        table.notes.append(
            "Utilisation: sampled ten times a second during the fit; above 50 %: the share of "
            "samples, in %. That of a GPU includes everything else that runs on it; (process): "
            "the share of all CPU cores that the process used."
        )
    return table


def _digits(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


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
