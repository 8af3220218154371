"""Ablations: levels summed up from the records of their own runs, gaps told."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, record_of, write_records

from ipl.bench.ablation import ABLATIONS, AXES, Ablation, sum_up
from ipl.bench.recipe import Planned, plan_runs, read_recipe
from ipl.bench.records import read_records
from ipl.bench.tables.cells import AVERAGE
from ipl.support.errors import DataError


def plan(tmp_path: Path, name: str = "k", **settings: object) -> Planned:
    chosen = {"datasets": "eurosat,oxford_pets", "seeds": "1,2", "backbone": "pocket", **settings}
    return plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)


def done(planned: Planned, folder: Path, skip: int = 0) -> Ablation:
    """Returns the ablation with accuracies that tell level, dataset and seed."""
    records = []
    for place, (_, runs) in enumerate(planned.levels):
        for run in runs:
            base = 0.5 + 0.01 * place + 0.001 * run.seed + 0.1 * (run.dataset == "eurosat")
            records.append(record_of(run, {"base": base, "novel": 0.4}))
    write_records(folder, record("dtd"), *records[skip:])  # another run in the folder is not ours
    return sum_up("k", planned, read_records([folder])[0])


def test_every_level_has_its_numbers(tmp_path: Path) -> None:
    ablation = done(plan(tmp_path), tmp_path / "out")
    assert ablation.datasets == ("oxford_pets", "eurosat", AVERAGE)
    rows = ablation.of(AVERAGE)
    assert [row.level.value for row in rows] == [1, 2, 3, 4, 5, 6]
    for place, row in enumerate(rows):
        assert row.entry.numbers["base"].mean == pytest.approx(55.15 + place)
        assert row.entry.numbers["base"].std == pytest.approx(0.1 / 2**0.5)
        assert row.entry.gaps == ()
    assert ablation.common["backbone"] == "pocket"
    assert "words" not in ablation.common


def test_runs_without_a_record_are_told(tmp_path: Path) -> None:
    ablation = done(plan(tmp_path), tmp_path / "out", skip=1)
    first = next(row for row in ablation.of("eurosat") if row.level.value == 1)
    assert first.entry.gaps == ("1 of 2 seeds (not run: seed 1)",)
    assert ablation.of("oxford_pets")[0].entry.gaps == ()


def test_nothing_done(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="None of the ablation's runs is done"):
        sum_up("k", plan(tmp_path), [])
    planned = plan(tmp_path)
    failed = {**record_of(planned.runs[0], {}), "status": "failed", "error": "The disk is full."}
    results, _ = read_records([write_records(tmp_path / "out", failed)])
    with pytest.raises(DataError, match=r"nothing to show\. The first failed: The disk is full\."):
        sum_up("k", planned, results)


def test_several_learners_and_none_without_words_is_lost(tmp_path: Path) -> None:
    planned = plan(tmp_path, "interval", learners="coop,kgcoop", words="0,2")
    records = [record_of(run, {"base": 0.5, "novel": 0.4}) for run in planned.runs]
    folder = write_records(tmp_path / "out", *records)
    ablation = sum_up("interval", planned, read_records([folder])[0])
    methods = list(dict.fromkeys(row.method for row in ablation.of(AVERAGE)))
    assert methods == ["CoOp", "CoOp + IPL", "KgCoOp", "KgCoOp + IPL"]
    # Without words the interval changes nothing: one run stands at every level.
    assert len(records) == len({r["id"] for r in records}) == 2 * 2 * 2 * (1 + 7)


def test_across_data_sets(tmp_path: Path) -> None:
    settings = {"protocol": "cross-dataset", "source": "caltech101", "words": 1}
    planned = plan(tmp_path, "interval", **settings)
    scores = {"caltech101": 0.9, "eurosat": 0.4, "oxford_pets": 0.6}
    folder = write_records(tmp_path / "out", *(record_of(run, scores) for run in planned.runs))
    ablation = sum_up("interval", planned, read_records([folder])[0])
    assert ablation.source == "caltech101"
    assert {row.entry.numbers["accuracy"].mean for row in ablation.of(AVERAGE)} == {50.0}


def test_every_ablation_has_a_name_for_its_axis() -> None:
    assert set(ABLATIONS) == set(AXES)


def test_whether_levels_chose_the_same_words(tmp_path: Path) -> None:
    planned = plan(tmp_path, "penalty")
    records = [
        {**record_of(run, {"base": 0.5, "novel": 0.4}), "chosen": [run.dataset]}
        for run in planned.runs
    ]
    folder = write_records(tmp_path / "out", *records)
    assert sum_up("penalty", planned, read_records([folder])[0]).same_words
    write_records(folder, {**records[-1], "chosen": ["another"]})
    assert not sum_up("penalty", planned, read_records([folder])[0]).same_words
