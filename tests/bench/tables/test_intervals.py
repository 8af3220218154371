"""Intervals of accuracies: over test images, over seeds, and over both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipl.bench.records import RunRecord
from ipl.bench.tables.cells import AVERAGE, MeanStd
from ipl.bench.tables.intervals import find_intervals, image_errors
from ipl.metrics import harmonic_mean
from tests.helpers.records import record
from tests.helpers.result_tables import find_cell, result_table

Z = 1.959964


def run_on(images: int, **values: Any) -> dict[str, Any]:
    """Returns a record of few-shot on dtd with so many test images."""
    data = {"classes": {"dtd": 47}, "test_images": {"dtd": images}}
    return record("dtd", words=0, protocol="few-shot", data=data, **values)


def is_bound(number: MeanStd, bound: float | None, images: int) -> bool:
    """Returns whether a bound solves the equation of the score test, as Wilson's bounds do."""
    assert bound is not None
    p = bound / 100
    return math.isclose(
        abs(number.mean / 100 - p), Z * math.sqrt(p * (1 - p) / images), abs_tol=1e-6
    )


def test_one_run_has_wilsons_interval(tmp_path: Path) -> None:
    table = result_table(tmp_path, run_on(180, accuracy={"dtd": 0.3}))
    number = find_cell(table, "dtd", "CoOp").numbers["accuracy"]
    assert is_bound(number, number.low, 180)
    assert is_bound(number, number.high, 180)
    assert number.std is None
    assert table.notes[-1] == (
        "The number of test images alone leaves an accuracy uncertain by up to ± 7.2 points on dtd "
        "(180 images), at 95 %."
    )


def test_an_unknown_number_of_images_gives_none(tmp_path: Path) -> None:
    run = run_on(180, accuracy={"dtd": 0.3}) | {"data": {}}
    table = result_table(tmp_path, run)
    number = find_cell(table, "dtd", "CoOp").numbers["accuracy"]
    assert (number.low, number.high) == (None, None)
    assert table.notes == ()


def test_base_and_novel_have_their_own_images(tmp_path: Path) -> None:
    data = {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 100, "novel": 400}}
    probe = record("mine", "linear-probe", 0, accuracy={"base": 0.9}, data=data)
    table = result_table(tmp_path, record("mine", data=data), probe)
    base, novel, hm = find_cell(table, "mine", "CoOp + IPL").numbers.values()
    assert is_bound(base, base.low, 100)
    assert is_bound(novel, novel.high, 400)
    assert (hm.low, hm.high) == (
        pytest.approx(harmonic_mean(base.low or 0, novel.low or 0)),
        pytest.approx(harmonic_mean(base.high or 0, novel.high or 0)),
    )
    assert list(find_cell(table, "mine", "linear probe").numbers) == ["base"]
    assert "± 9.6 points on mine (100 base and 400 novel images), at" in table.notes[-1]


def test_several_seeds_are_surer_than_no_seed_and_less_sure_than_their_images(
    tmp_path: Path,
) -> None:
    runs = [run_on(10**7, seed=s, accuracy={"dtd": a}) for s, a in ((1, 0.49), (2, 0.51))]
    many = find_cell(result_table(tmp_path / "a", *runs), "dtd", "CoOp").numbers["accuracy"]
    assert many.low is not None
    assert many.high is not None
    # With one degree of freedom Student's t is Cauchy's distribution: tan(0.475 pi) = 12.706.
    half = 12.706 * math.sqrt(2) / math.sqrt(2)
    assert (50 - many.low, many.high - 50) == pytest.approx((half, half), abs=0.01)
    runs = [run_on(180, seed=s, accuracy={"dtd": 0.3}) for s in (1, 2)]
    same = find_cell(result_table(tmp_path / "b", *runs), "dtd", "CoOp").numbers["accuracy"]
    assert is_bound(same, same.low, 180)


def test_an_average_has_the_errors_of_its_datasets(tmp_path: Path) -> None:
    def run(seed: int, dtd: float, mine: float) -> dict[str, Any]:
        accuracy = {"eurosat": 0.9, "dtd": dtd, "mine": mine}
        return record("eurosat", seed=seed, accuracy=accuracy, protocol="cross-dataset")

    table = result_table(tmp_path, run(1, 0.5, 0.5))
    cells = {name: find_cell(table, name, "CoOp + IPL") for name in ("dtd", "mine", AVERAGE)}
    below = {name: 50 - (cell.numbers["accuracy"].low or 0) for name, cell in cells.items()}
    assert below[AVERAGE] == pytest.approx(math.hypot(below["dtd"], below["mine"]) / 2)
    # One prompt is tested on all targets: seeds that shift them together are not averaged out.
    runs = [run(seed, shift, shift) for seed, shift in ((1, 0.3), (2, 0.7))]
    number = find_cell(result_table(tmp_path, *runs), AVERAGE, "CoOp + IPL").numbers["accuracy"]
    assert (number.low or 0) < 30


@pytest.mark.parametrize("seeds", [2, 20])
def test_the_intervals_cover_what_they_should(seeds: int) -> None:
    """Draws prompts and test images anew: about 95 % of the intervals contain the truth."""
    generator, truth, images = np.random.default_rng(0), 70.0, 200
    run = RunRecord.from_dict(run_on(images, accuracy={"dtd": 0.5}))
    covered = 0
    for _ in range(300):
        difficulty = generator.random(images)  # all seeds are tested on the same images
        prompts = truth / 100 + generator.normal(0, 0.06, seeds)
        by_seed = [{"accuracy": 100 * float((difficulty < p).mean())} for p in prompts]
        means = {"accuracy": sum(each["accuracy"] for each in by_seed) / seeds}
        errors = image_errors([run], "dtd", means)
        low, high = find_intervals(run.rules, means, errors, by_seed)["accuracy"]
        covered += low <= truth <= high
    assert 0.92 <= covered / 300 <= 0.99
