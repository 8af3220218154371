"""Results: which runs are one row, means over seeds, averages over datasets, and gaps."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from ipl.bench import paper_numbers as paper
from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.tables.methods import PUBLISHED
from ipl.metrics import harmonic_mean
from tests.helpers.records import paper_records, record
from tests.helpers.result_tables import find_cell, result_of

IPL = "CoOp + IPL"


def labels(folder: Path, *records: dict[str, Any]) -> list[str]:
    return [method.label for method in result_of(folder, *records).methods]


# -- rows -----------------------------------------------------------------------------------------


def test_different_settings_are_different_rows(tmp_path: Path) -> None:
    runs = [record(words=3, seed=seed, lr=lr) for seed in (1, 2) for lr in (0.01, 0.002)]
    runs += [record(words=0), record(words="paper"), record(backbone="pocket", lr=0.002, words=3)]
    name = paper.BACKBONE
    assert labels(tmp_path, *runs) == [
        "CoOp",
        f"CoOp + IPL (lr 0.002, words 3, backbone {name})",
        "CoOp + IPL (lr 0.002, words 3, backbone pocket)",
        f"CoOp + IPL (lr 0.002, k by training accuracy, backbone {name})",
        f"CoOp + IPL (lr 0.01, words 3, backbone {name})",
    ]


def test_values_of_the_paper_for_each_dataset_are_one_row(tmp_path: Path) -> None:
    sets = ("oxford_pets", "eurosat")
    one = [record(name, words=paper.WORDS[name]) for name in sets]
    assert labels(tmp_path / "one", *one) == [IPL]
    without = [record(name, words=paper.WORDS[name], lambda_=0) for name in sets]
    result = result_of(tmp_path / "two", *one, *without)
    assert [method.varied for method in result.methods] == [
        {"lambda_": 0},
        {"lambda_": PUBLISHED},
    ]
    # The same values everywhere are a grid: each is a row of its own.
    grid = [record(name, words=3, lambda_=value) for name in sets for value in (0.1, 0.2)]
    assert labels(tmp_path / "grid", *grid) == [f"{IPL} (lambda {v})" for v in (0.1, 0.2)]


# -- cells ----------------------------------------------------------------------------------------


def test_means_and_deviations_by_hand(tmp_path: Path) -> None:
    accuracies = {1: (0.8, 0.5), 2: (0.9, 0.7), 3: (0.7, 0.3)}
    runs = [
        record(words=3, seed=s, accuracy={"base": b, "novel": n})
        for s, (b, n) in accuracies.items()
    ]
    cell = find_cell(result_of(tmp_path, *runs), "oxford_pets", IPL)
    base, novel = [80.0, 90.0, 70.0], [50.0, 70.0, 30.0]
    assert cell.mean == pytest.approx({"base": 80, "novel": 50, "hm": harmonic_mean(80, 50)})
    by_seed = [harmonic_mean(b, n) for b, n in zip(base, novel, strict=True)]
    assert cell.std["base"] == pytest.approx(statistics.stdev(base))
    assert cell.std["hm"] == pytest.approx(statistics.stdev(by_seed))
    assert find_cell(result_of(tmp_path / "one", runs[0]), "oxford_pets", IPL).std == {}


@pytest.mark.parametrize("learner", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
def test_every_cell_of_the_papers_table_comes_out_as_printed(learner: str, tmp_path: Path) -> None:
    runs = [*paper_records(learner, words=0), *paper_records(learner, words="paper")]
    result = result_of(tmp_path, *runs)
    assert result.datasets == paper.ELEVEN
    for dataset in (*paper.ELEVEN, AVERAGE):
        for cell in result.of(dataset):
            assert cell.paper_beside, (dataset, cell.differences, cell.gaps)
            # The printed numbers were rounded before they were averaged.
            assert cell.mean == pytest.approx(cell.paper_beside, abs=0.015)
    assert result.of(AVERAGE)[1].std["base"] == pytest.approx(0.5)


def test_the_average_has_the_hm_and_the_deviation_of_averages(tmp_path: Path) -> None:
    runs = [
        record(name, words=3, seed=seed, accuracy={"base": base, "novel": novel})
        for name, bases, novel in (("eurosat", (0.5, 0.7), 0.9), ("oxford_pets", (0.9, 0.7), 0.1))
        for seed, base in enumerate(bases, 1)
    ]
    average = find_cell(result_of(tmp_path, *runs), AVERAGE, IPL)
    assert average.mean["hm"] == pytest.approx(harmonic_mean(70, 50))
    assert average.std["base"] == pytest.approx(0)  # both seeds average 70


def test_failed_and_missing_runs_are_gaps(tmp_path: Path) -> None:
    runs = [record(name, words=3, seed=s) for name in ("eurosat", "oxford_pets") for s in (1, 2, 3)]
    runs[1] = record("eurosat", words=3, seed=2, error="Out of memory.")
    del runs[5]
    runs.append(record("dtd", words=0, seed=1))
    result = result_of(tmp_path, *runs)
    cells = {name: find_cell(result, name, IPL) for name in (*result.datasets, AVERAGE)}
    assert cells["eurosat"].gaps == ("seed 2 failed: Out of memory",)
    assert cells["oxford_pets"].gaps == ("no record of seed 3",)
    assert cells["dtd"].mean == {}
    assert cells[AVERAGE].gaps == ("2 of 3 datasets (without dtd)",)
    assert not cells[AVERAGE].complete
    assert not any(cell.paper_beside for cell in cells.values())


def test_across_datasets_the_source_is_not_in_the_average(tmp_path: Path) -> None:
    def across(seed: int, shift: float, **more: Any) -> dict[str, Any]:
        accuracy = {"imagenet": 0.7, **dict.fromkeys(paper.TARGETS, 0.6 + shift)}
        return record("imagenet", "coop", 2, seed, accuracy, "cross-dataset", **more)

    runs = [across(seed, shift) for seed, shift in ((1, 0.0), (2, 0.01), (3, 0.02))]
    probe = record("imagenet", "linear-probe", 0, 1, {"imagenet": 0.7}, "cross-dataset")
    result = result_of(tmp_path, *runs, probe | {"targets": list(paper.TARGETS)})
    assert (result.source, result.averaged) == ("imagenet", paper.TARGETS)
    average = find_cell(result, AVERAGE, IPL)
    assert (average.mean["accuracy"], average.std["accuracy"]) == pytest.approx((61, 1))
    assert average.paper_beside == {"accuracy": 65.36}
    assert find_cell(result, "imagenet", IPL).paper_beside == {"accuracy": 71.67}
    # A probe does not know the classes of a target: that is no gap.
    assert find_cell(result, "dtd", "linear probe").gaps == ()
    failed = result_of(tmp_path / "failed", across(1, 0, error="The disk is full."))
    assert "seed 1 failed: The disk is full" in find_cell(failed, "dtd", IPL).gaps[0]
