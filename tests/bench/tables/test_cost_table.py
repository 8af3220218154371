"""What runs cost: means over runs, searches counted once, and the paper's numbers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl.bench.tables.cost_table import cost_rows, cost_table
from tests.helpers.records import record, search
from tests.helpers.result_tables import results_of


def _run(words: int, seed: int, fit: float, gigabytes: float, **more: Any) -> dict[str, Any]:
    costs = {"seconds": {"fit": fit, "test": 1.0}, "peak_memory": int(gigabytes * 1e9)}
    return record(words=words, seed=seed) | costs | {"device": "NVIDIA H200"} | more


def _profile(mean: float) -> dict[str, Any]:
    return {"source": "nvml", "utilisation": {"mean": mean}}


def test_means_over_runs_of_a_device_and_the_largest_peak(tmp_path: Path) -> None:
    runs = [
        _run(0, 1, 10.0, 2.0),
        _run(0, 2, 20.0, 3.0),
        _run(0, 3, 90.0, 1.0, device="cpu"),
        record(words=0, seed=4, error="It burnt down."),
        _run(2, 1, 40.0, 4.0, profile=_profile(60.0), selection=search((2.0, 4.0))),
        _run(2, 2, 50.0, 3.5, profile=_profile(80.0), selection=search((3.0, 7.0))),
        _run(2, 3, 60.0, 3.5, selection=search((3.0, 7.0))),  # from the cache: counts once
    ]
    table = cost_table(cost_rows(results_of(tmp_path, *runs)))
    assert [row[2:] for row in table.rows[:3]] == [
        ("NVIDIA H200", "2", "15.0", "-", "3.00", "-"),
        ("cpu", "1", "90.0", "-", "1.00", "-"),
        ("NVIDIA H200", "3", "50.0", "4.00", "4.00", "70.0"),
    ]
    assert [row[6] for row in table.rows[3:]] == ["3.69", "4.66"]  # the paper's peaks
