"""Cells: means over seeds, averages over datasets, and gaps that are named."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from ipl.bench.tables.cells import AVERAGE
from ipl.metrics import harmonic_mean
from tests.helpers.records import record
from tests.helpers.result_tables import find_cell, result_table


def test_means_and_deviations_by_hand(tmp_path: Path) -> None:
    accuracies = {1: (0.8, 0.5), 2: (0.9, 0.7), 3: (0.7, 0.3)}
    runs = [record(seed=s, accuracy={"base": b, "novel": n}) for s, (b, n) in accuracies.items()]
    cell = find_cell(result_table(tmp_path, *runs), "oxford_pets", "CoOp + IPL")
    base, novel = [80.0, 90.0, 70.0], [50.0, 70.0, 30.0]
    assert cell.numbers["base"].mean == pytest.approx(80)
    assert cell.numbers["base"].std == pytest.approx(statistics.stdev(base))
    by_seed = [harmonic_mean(b, n) for b, n in zip(base, novel, strict=True)]
    assert cell.numbers["hm"].mean == pytest.approx(statistics.mean(by_seed))
    assert cell.numbers["hm"].std == pytest.approx(statistics.stdev(by_seed))


def test_the_average_has_the_hm_of_the_averages(tmp_path: Path) -> None:
    table = result_table(
        tmp_path,
        record("oxford_pets", accuracy={"base": 0.9, "novel": 0.9}),
        record("eurosat", accuracy={"base": 0.9, "novel": 0.1}),
    )
    average = find_cell(table, AVERAGE, "CoOp + IPL")
    assert average.numbers["hm"].mean == pytest.approx(harmonic_mean(90, 50))
    assert average.numbers["hm"].mean != pytest.approx((90 + harmonic_mean(90, 10)) / 2)
    assert average.numbers["base"].std is None  # a single seed deviates from nothing


def test_the_deviation_of_an_average_is_over_seeds(tmp_path: Path) -> None:
    runs = [
        record(name, seed=seed, accuracy={"base": base, "novel": 0.5})
        for name, bases in (("eurosat", (0.5, 0.7)), ("oxford_pets", (0.9, 0.7)))
        for seed, base in enumerate(bases, 1)
    ]
    average = find_cell(result_table(tmp_path, *runs), AVERAGE, "CoOp + IPL")
    assert average.numbers["base"].mean == pytest.approx(70)
    assert average.numbers["base"].std == pytest.approx(0)  # both seeds average 70


def test_failed_and_missing_runs_are_gaps(tmp_path: Path) -> None:
    runs = [record(name, seed=seed) for name in ("eurosat", "oxford_pets") for seed in (1, 2, 3)]
    runs[1] = record("eurosat", seed=2, error="Out of memory.")
    del runs[5]
    runs.append(record("dtd", words=0, seed=1))
    table = result_table(tmp_path, *runs)
    assert find_cell(table, "eurosat", "CoOp + IPL").gaps == (
        "2 of 3 seeds (seed 2 failed: Out of memory)",
    )
    assert find_cell(table, "oxford_pets", "CoOp + IPL").gaps == (
        "2 of 3 seeds (no valid record: seed 3)",
    )
    missing = find_cell(table, "dtd", "CoOp + IPL")
    assert missing.numbers == {}
    assert missing.gaps == ("0 of 3 seeds (no valid record: seeds 1, 2, 3)",)
    assert find_cell(table, AVERAGE, "CoOp + IPL").gaps == (
        "2 of 3 datasets (without dtd)",
        "with fewer seeds on oxford_pets, eurosat",
    )
    assert not any(cell.comparable for cell in table.cells)


def test_other_classes_are_no_gap_of_a_linear_probe(tmp_path: Path) -> None:
    accuracy = {"dtd": 0.5, "eurosat": 0.4, "oxford_pets": 0.6}
    runs = [record("dtd", words=0, accuracy=accuracy, protocol="cross-dataset")]
    probe = record("dtd", "linear-probe", 0, 1, {"dtd": 0.7}, "cross-dataset")
    runs.append(probe | {"targets": ["eurosat", "oxford_pets"]})
    table = result_table(tmp_path, *runs)
    for dataset in ("eurosat", AVERAGE):
        cell = find_cell(table, dataset, "linear probe")
        assert (cell.numbers, cell.seeds, cell.gaps) == ({}, (1,), ())


def test_more_seeds_elsewhere_are_a_gap_but_no_other_setting(tmp_path: Path) -> None:
    runs = [record("oxford_pets", seed=seed) for seed in (1, 2, 3)]
    runs += [record("eurosat", seed=seed) for seed in (1, 2, 3, 4)]
    table = result_table(tmp_path, *runs)
    pets, eurosat = (find_cell(table, name, "CoOp + IPL") for name in ("oxford_pets", "eurosat"))
    assert pets.gaps == ("3 of 4 seeds (no valid record: seed 4)",)
    assert pets.comparable  # seeds 1 to 3 are the paper's
    assert eurosat.differences == ("the seeds are 1, 2, 3, 4, not 1, 2, 3",)


def test_two_results_of_one_configuration_are_noted(tmp_path: Path) -> None:
    # What zero-shot is tested on may depend on the shots that others draw, and so may its id.
    runs = [record("mine", "zero-shot", 0, 1, {"mine": 0.5}, "few-shot", shots=4)]
    same = record("mine", "zero-shot", 0, 1, {"mine": 0.5}, "few-shot", shots=8)
    assert len(result_table(tmp_path, *runs, same).notes) == 1
    later = {"time": "2026-01-02T00:00:00"}
    runs.append(record("mine", "zero-shot", 0, 1, {"mine": 0.6}, "few-shot", shots=16) | later)
    table = result_table(tmp_path / "other", *runs)
    assert table.notes[0] == (
        "zero-shot CLIP on mine, seed 1: 2 runs came to different results; the latest counts, "
        f"{runs[1]['id']}."
    )
    assert find_cell(table, "mine", "zero-shot CLIP").numbers["accuracy"].mean == pytest.approx(60)
