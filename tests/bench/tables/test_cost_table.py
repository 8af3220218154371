"""What runs cost: means over runs, searches counted once, and the paper's numbers beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl.bench.tables.cost_table import (
    CostRow,
    cost_rows,
    cost_table,
)
from tests.helpers.records import record, search
from tests.helpers.result_tables import result_tables


def _run(
    words: int,
    seed: int,
    fit: float,
    gigabytes: float,
    device: str = "NVIDIA H200",
    profile: dict[str, Any] | None = None,
    selection: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return record(words=words, seed=seed) | {
        "device": device,
        "seconds": {"fit": fit, "test": 1.0},
        "peak_memory": int(gigabytes * 1e9),
        "profile": profile,
        "selection": selection,
    }


def _profile(mean: float, source: str = "nvml") -> dict[str, Any]:
    return {"source": source, "utilisation": {"mean": mean, "p95": 95.0, "above_50": 0.25}}


def _rows(tmp_path: Path, *runs: dict[str, Any]) -> list[CostRow]:
    return cost_rows(result_tables(tmp_path, *runs))


def test_means_over_runs_and_the_largest_peak(tmp_path: Path) -> None:
    plain, words = _rows(
        tmp_path,
        _run(0, 1, 10.0, 2.0),
        _run(0, 2, 20.0, 3.0),
        _run(2, 1, 40.0, 4.0, profile=_profile(60.0), selection=search((2.0, 4.0))),
        _run(2, 2, 50.0, 3.5, profile=_profile(80.0), selection=search((3.0, 7.0))),
    )
    assert (plain.method, plain.runs, plain.fit_seconds, plain.peak_memory) == ("CoOp", 2, 15, 3)
    assert (plain.traversal_seconds, plain.utilisation_of) == (None, None)
    assert words.method == "CoOp + IPL"
    assert (words.fit_seconds, words.peak_memory) == (45, 4)
    assert words.traversal_seconds == 4  # of 2, 4, 3 and 7
    assert (words.utilisation_of, words.utilisation_mean) == ("GPU", 70)
    assert (words.utilisation_p95, words.above_50) == (95, 25)


def test_a_search_from_the_cache_counts_once_and_not_as_nothing(tmp_path: Path) -> None:
    found = search((8.0, 2.0))
    (row,) = _rows(
        tmp_path, *(_run(2, seed, fit, 1.0, selection=found) for seed, fit in ((1, 30.0), (2, 4.0)))
    )
    assert row.traversal_seconds == 5


def test_devices_are_not_mixed_and_failed_runs_do_not_count(tmp_path: Path) -> None:
    failed = record(words=0, seed=3, error="It burnt down.")
    rows = _rows(tmp_path, _run(0, 1, 10.0, 2.0), _run(0, 2, 90.0, 1.0, "cpu"), failed)
    assert [(row.device, row.runs, row.fit_seconds) for row in rows] == [
        ("NVIDIA H200", 1, 10.0),
        ("cpu", 1, 90.0),
    ]
    table = cost_table(rows)
    assert {row[2] for row in table.rows} == {"NVIDIA H200", "cpu", "its GPU"}


def test_the_papers_numbers_stand_beside_ours(tmp_path: Path) -> None:
    table = cost_table(_rows(tmp_path, _run(0, 1, 123.4, 2.5)))
    assert table.columns[3:] == ("runs", "fit, s", "traversal, s", "peak, GB")
    assert table.rows == (
        ("base-to-novel", "CoOp", "NVIDIA H200", "1", "123.4", "-", "2.50"),
        ("paper", "without words", "its GPU", "", "", "", "3.69"),
        ("", "with words", "its GPU", "", "", "252", "4.66"),
    )
    assert any("a GPU that we do not know" in note for note in table.notes)
