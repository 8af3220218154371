"""Ablations: levels summarised from the records of their runs, as tables and a plot."""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path

import pytest

from ipl.bench.ablation import (
    Ablation,
    ablation_table,
    ablation_to_csv,
    ablation_to_values,
    plot_ablation,
    summarize_ablation,
)
from ipl.bench.planned_runs import Planned, plan_runs
from ipl.bench.recipe import read_recipe
from ipl.bench.records import read_records
from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE
from ipl.support.errors import DataError
from tests.helpers.records import record, record_of, write_records


def plan(tmp_path: Path, name: str, **settings: object) -> Planned:
    tmp_path.mkdir(exist_ok=True)
    chosen = {"datasets": "eurosat,oxford_pets", "seeds": "1,2", "backbone": "pocket", **settings}
    return plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)


def recorded(tmp_path: Path, name: str, **settings: object) -> Ablation:
    """Returns the ablation with accuracies that tell level and seed; its last run is missing."""
    planned = plan(tmp_path, name, **settings)
    records = [
        record_of(run, {"base": 0.6 + 0.05 * run.seed, "novel": 0.3 + 0.01 * index})
        for index, (_, runs) in enumerate(planned.levels)
        for run in runs
    ]
    # Another run in the folder is not ours.
    folder = write_records(tmp_path / "out", record("dtd"), *records[:-1])
    return summarize_ablation(name, planned, read_records([folder])[0])


def test_every_level_has_its_numbers(tmp_path: Path) -> None:
    ablation = recorded(tmp_path, "interval", learners="coop")
    assert ablation.datasets == ("oxford_pets", "eurosat", AVERAGE)
    rows = ablation.of(AVERAGE)
    assert [row.level.value for row in rows] == list(paper.INTERVALS)
    for index, row in enumerate(rows[:-1]):
        assert row.cell.numbers["novel"].mean == pytest.approx(30 + index)
        assert row.cell.numbers["base"].std == pytest.approx(5 / 2**0.5)
    assert ablation.common["backbone"] == "pocket"
    assert "interval" not in ablation.common
    table = ablation_table(ablation)
    assert table.columns == ("dataset", "method", "t", "base", "novel", "HM", "seeds")
    assert [len(section) for section in table.sections] == [7, 7, 7]
    assert table.sections[2][0] == (
        *("average", "CoOp + IPL", "5"),
        *("67.50 ± 3.54", "30.00 ± 0.00", "41.54 ± 0.67", "2"),
    )
    assert table.sections[0][-1][-1] == "1 [1]"
    assert table.footnotes[0] == "1 of 2 seeds (no valid record: seed 2)"


def test_nothing_done(tmp_path: Path) -> None:
    planned = plan(tmp_path, "k")
    with pytest.raises(DataError, match="None of the ablation's runs is done"):
        summarize_ablation("k", planned, [])
    failed = {**record_of(planned.runs[0], {}), "status": "failed", "error": "The disk is full."}
    results, _ = read_records([write_records(tmp_path / "out", failed)])
    with pytest.raises(DataError, match=r"The first failed: The disk is full\."):
        summarize_ablation("k", planned, results)


def test_several_learners_and_none_without_words_is_lost(tmp_path: Path) -> None:
    planned = plan(tmp_path, "interval", learners="coop,kgcoop", words="0,2")
    records = [record_of(run, {"base": 0.5, "novel": 0.4}) for run in planned.runs]
    folder = write_records(tmp_path / "out", *records)
    ablation = summarize_ablation("interval", planned, read_records([folder])[0])
    methods = list(dict.fromkeys(row.method for row in ablation.of(AVERAGE)))
    assert methods == ["CoOp", "CoOp + IPL", "KgCoOp", "KgCoOp + IPL"]
    # Without words the interval changes nothing: one run stands at every level.
    assert len(records) == len({r["id"] for r in records}) == 2 * 2 * 2 * (1 + 7)


def test_whether_levels_chose_the_same_words(tmp_path: Path) -> None:
    planned = plan(tmp_path, "penalty")
    records = [
        {**record_of(run, {"base": 0.5, "novel": 0.4}), "chosen": [run.dataset]}
        for run in planned.runs
    ]
    folder = write_records(tmp_path / "out", *records)
    assert summarize_ablation("penalty", planned, read_records([folder])[0]).same_words
    write_records(folder, {**records[-1], "chosen": ["another"]})
    assert not summarize_ablation("penalty", planned, read_records([folder])[0]).same_words


def test_the_papers_numbers_are_notes_where_the_setting_is_another(tmp_path: Path) -> None:
    table = ablation_table(recorded(tmp_path, "penalty"))
    *_, pets, eurosat = table.notes
    assert table.columns[-1] == "seeds"
    assert "0: 95.00 / 94.18 / 94.59; 0.2: 95.48 / 96.50 / 95.99." in pets
    assert "0: 90.49 / 56.99 / 69.94; 0.1: 89.22 / 67.73 / 77.00." in eurosat


def papers_ablation(tmp_path: Path, name: str, **settings: object) -> Ablation:
    """Returns an ablation in the paper's setting."""
    chosen = {"datasets": ",".join(paper.ELEVEN), **settings}
    planned = plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)
    records = [record_of(run, {"base": 0.8, "novel": 0.6}) for run in planned.runs]
    folder = write_records(tmp_path / "out", *records)
    return summarize_ablation(name, planned, read_records([folder])[0])


def test_the_papers_penalty_stands_beside_ours(tmp_path: Path) -> None:
    ablation = papers_ablation(tmp_path, "penalty")
    for dataset in paper.ELEVEN:
        beside = {row.level.value: row.cell.paper for row in ablation.of(dataset) if row.cell.paper}
        assert all(row.cell.comparable for row in ablation.of(dataset) if row.cell.paper)
        with_penalty = paper.base_to_novel()["coop", True][dataset]
        weight = 0.2 if dataset in ("oxford_pets", "oxford_flowers") else 0.1
        assert beside == {0: paper.penalty()[dataset][False], weight: with_penalty}
    # The weight with a penalty is not the same for all datasets, so no level has that average.
    assert {r.level.value: r.cell.paper for r in ablation.of(AVERAGE) if r.cell.paper} == {
        0: {"base": 82.8, "novel": 66.85, "hm": 73.98}
    }
    table = ablation_table(ablation)
    assert table.columns[-1] == "paper base / novel / HM"
    assert [row[-1] for row in table.sections[2]] == [
        *("95.00 / 94.18 / 94.59", "", "95.48 / 96.50 / 95.99", "", "", "")
    ]
    assert table.notes[-2].endswith("0.1 (Pets and Flowers 0.2): 82.49 / 70.00 / 75.73.")
    assert "prints 73.45 and 75.62 as average HMs" in table.notes[-1]
    rows = list(csv.DictReader(StringIO(ablation_to_csv(ablation))))
    assert (rows[2]["dataset"], rows[2]["paper_hm"]) == ("oxford_pets", "94.59")
    values = ablation_to_values(ablation)["rows"][0]
    assert values["paper"] == {"base": 76.11, "novel": 63.67, "hm": 69.33}
    assert values["differs_from_paper"] == []


def test_the_papers_sentences_stand_beside_ours_on_three_datasets(tmp_path: Path) -> None:
    ablation = papers_ablation(tmp_path, "template", learners="coop,maple")
    table = ablation_table(ablation)
    assert table.columns[-1] == "paper HM"
    sections = dict(zip(ablation.datasets, table.sections, strict=True))
    shown = {name: [row[-1] for row in rows if row[-1]] for name, rows in sections.items()}
    assert {name: column for name, column in shown.items() if column} == {
        "caltech101": ["95.19", "94.77", "94.50", "95.08"],
        "oxford_pets": ["95.99", "93.84", "95.76", "94.15"],
        "dtd": ["63.30", "61.22", "60.11", "62.96"],
    }


@pytest.mark.parametrize(
    ("name", "ticks"),
    [
        ("penalty", ["0", "0.1", "0.5"]),
        ("pool", ["bundled", "no-names"]),
    ],
)
def test_the_plot(name: str, ticks: list[str], tmp_path: Path) -> None:
    ablation = recorded(tmp_path, name, words="0,1", learners="coop,kgcoop")
    files = plot_ablation(ablation)
    assert set(files) == {"svg", "png"}
    texts = re.findall(r"<!-- (.*?) -->", files["svg"].decode())
    assert {*ticks, "accuracy in %", ablation.varied.axis} <= set(texts)
    assert texts.count("CoOp + IPL") == 1  # the legend
    assert {"base classes", "novel classes", "harmonic mean"} <= set(texts)
