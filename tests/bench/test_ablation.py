"""Ablations: levels summarised from the records of their runs, as tables and a plot."""

from __future__ import annotations

import csv
import json
import re
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from PIL import Image

from ipl.bench.ablation import (
    ABLATIONS,
    AXES,
    COLUMNS,
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


def plan(tmp_path: Path, name: str = "k", **settings: object) -> Planned:
    chosen = {"datasets": "eurosat,oxford_pets", "seeds": "1,2", "backbone": "pocket", **settings}
    return plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)


def summarized(planned: Planned, folder: Path, skip: int = 0) -> Ablation:
    """Returns the ablation with accuracies that tell level, dataset and seed."""
    records = []
    for index, (_, runs) in enumerate(planned.levels):
        for run in runs:
            base = 0.5 + 0.01 * index + 0.001 * run.seed + 0.1 * (run.dataset == "eurosat")
            records.append(record_of(run, {"base": base, "novel": 0.4}))
    write_records(folder, record("dtd"), *records[skip:])  # another run in the folder is not ours
    return summarize_ablation("k", planned, read_records([folder])[0])


def test_every_level_has_its_numbers(tmp_path: Path) -> None:
    ablation = summarized(plan(tmp_path), tmp_path / "out")
    assert ablation.datasets == ("oxford_pets", "eurosat", AVERAGE)
    rows = ablation.of(AVERAGE)
    assert [row.level.value for row in rows] == [1, 2, 3, 4, 5, 6]
    for index, row in enumerate(rows):
        assert row.cell.numbers["base"].mean == pytest.approx(55.15 + index)
        assert row.cell.numbers["base"].std == pytest.approx(0.1 / 2**0.5)
        assert row.cell.gaps == ()
    assert ablation.common["backbone"] == "pocket"
    assert "words" not in ablation.common


def test_runs_without_a_record_are_gaps(tmp_path: Path) -> None:
    ablation = summarized(plan(tmp_path), tmp_path / "out", skip=1)
    first = next(row for row in ablation.of("eurosat") if row.level.value == 1)
    assert first.cell.gaps == ("1 of 2 seeds (no valid record: seed 1)",)
    assert ablation.of("oxford_pets")[0].cell.gaps == ()


def test_nothing_done(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="None of the ablation's runs is done"):
        summarize_ablation("k", plan(tmp_path), [])
    planned = plan(tmp_path)
    failed = {**record_of(planned.runs[0], {}), "status": "failed", "error": "The disk is full."}
    results, _ = read_records([write_records(tmp_path / "out", failed)])
    with pytest.raises(DataError, match=r"nothing to show\. The first failed: The disk is full\."):
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


def test_across_datasets(tmp_path: Path) -> None:
    settings = {"protocol": "cross-dataset", "source": "caltech101", "words": 1}
    planned = plan(tmp_path, "interval", **settings)
    scores = {"caltech101": 0.9, "eurosat": 0.4, "oxford_pets": 0.6}
    folder = write_records(tmp_path / "out", *(record_of(run, scores) for run in planned.runs))
    ablation = summarize_ablation("interval", planned, read_records([folder])[0])
    assert ablation.source == "caltech101"
    assert {row.cell.numbers["accuracy"].mean for row in ablation.of(AVERAGE)} == {50.0}
    # The paper's ablations are base-to-novel.
    assert not any("The paper" in note for note in ablation_table(ablation).notes)


def test_part_of_a_dataset_is_noted(tmp_path: Path) -> None:
    planned = plan(tmp_path, datasets="dtd")
    part = {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 180, "novel": 180}}
    last = planned.levels[-1][1]  # the first levels may not be done yet
    records = [record_of(run, {"base": 0.5, "novel": 0.4}) | {"data": part} for run in last]
    folder = write_records(tmp_path / "out", *records)
    ablation = summarize_ablation("k", planned, read_records([folder])[0])
    note = "dtd: 10 of its 47 classes, 360 of 1,692 test images."
    assert note in ablation_table(ablation).notes


def test_every_ablation_has_a_name_for_its_axis() -> None:
    assert set(ABLATIONS) == set(AXES) == set(COLUMNS)


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


def recorded_ablation(tmp_path: Path, name: str, **settings: object) -> Ablation:
    tmp_path.mkdir(exist_ok=True)
    chosen = {"datasets": "eurosat,oxford_pets", "seeds": "1,2", "backbone": "pocket", **settings}
    planned = plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)
    records = [
        record_of(run, {"base": 0.6 + 0.05 * run.seed, "novel": 0.3 + 0.01 * index})
        for index, (_, runs) in enumerate(planned.levels)
        for run in runs
    ]
    folder = write_records(tmp_path / "out", *records[:-1])  # the last run is missing
    return summarize_ablation(name, planned, read_records([folder])[0])


def test_the_table(tmp_path: Path) -> None:
    table = ablation_table(recorded_ablation(tmp_path, "interval", learners="coop"))
    assert table.columns == ("dataset", "method", "t", "base", "novel", "HM", "seeds")
    assert [len(section) for section in table.sections] == [7, 7, 7]
    assert table.sections[2][0] == (
        *("average", "CoOp + IPL", "5"),
        *("67.50 ± 3.54", "30.00 ± 0.00", "41.54 ± 0.67", "2"),
    )
    assert table.sections[0][-1][-1] == "1 [1]"
    assert table.footnotes[0] == "1 of 2 seeds (no valid record: seed 2)"
    assert "pocket, 16 shots" in table.caption
    assert "| eurosat |" in table.to_markdown()


def test_the_caption_has_what_all_rows_share(tmp_path: Path) -> None:
    start = "Accuracy in %, mean ± standard deviation over seeds, pocket, "
    small = {"learners": "coop,kgcoop", "epochs": 20, "views": 0, "shots": 1, "words": 2}
    arms = ablation_table(recorded_ablation(tmp_path, "arms", **small, seeds="1,2,3"))
    assert arms.caption == f"{start}1 shot, 20 epochs, views 0, words 2"
    assert not [note for note in arms.notes if "too few" in note]
    del small["words"]
    k = ablation_table(recorded_ablation(tmp_path / "k", "k", **small, seeds=1))
    assert k.caption == f"{start}1 shot, 20 epochs, views 0"
    assert k.notes[0] == "From 1 seed, too few to conclude anything from a difference."


def test_the_papers_numbers_are_notes_where_the_setting_is_another(tmp_path: Path) -> None:
    table = ablation_table(recorded_ablation(tmp_path, "penalty"))
    # No words are in the records: they are the same.
    seeds, trained, images, same, pets, eurosat = table.notes
    assert seeds == "From 2 seeds, too few to conclude anything from a difference."
    assert images.startswith("The number of test images alone leaves")
    assert "PocketCLIP (pocket) was itself trained" in trained
    assert same == "Every level chose the same words: it makes no difference here."
    assert table.columns[-1] == "seeds"
    assert pets == (
        "The paper, oxford_pets (CLIP ViT-B/16, CoOp + IPL, base / novel / HM), by lambda: "
        "0: 95.00 / 94.18 / 94.59; 0.2: 95.48 / 96.50 / 95.99."
    )
    assert "0: 90.49 / 56.99 / 69.94; 0.1: 89.22 / 67.73 / 77.00." in eurosat
    *_, pets = ablation_table(recorded_ablation(tmp_path / "s", "template")).notes
    assert "HM), by sentence: a photo of a {cls}, with emphasis on: {words}: 95.99; " in pets


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


def test_a_difference_beside_the_level_is_named(tmp_path: Path) -> None:
    planned = plan_runs(
        read_recipe("ablations/penalty").override({"datasets": "dtd,eurosat"}), tmp_path, tmp_path
    )
    records = [record_of(run, {"base": 0.8, "novel": 0.6}) for run in planned.runs]
    for run in records:
        if run["dataset"] == "eurosat":
            run["settings"]["class_template"] = "{}"
    folder = write_records(tmp_path / "out", *records)
    table = ablation_table(summarize_ablation("penalty", planned, read_records([folder])[0]))
    dtd, eurosat, average = ([row[-1] for row in section] for section in table.sections)
    assert dtd[:2] == ["80.25 / 50.60 / 62.07", "80.17 / 52.30 / 63.30"]
    assert eurosat[:3] == ["≠ [1]", "≠ [1]", ""]
    assert average[:2] == ["≠ [1-2]", ""]
    assert table.footnotes[0].startswith("not the paper's setting: class_template is {}, not ")
    assert table.footnotes[1] == "not the paper's setting: 2 of the paper's 11 datasets"
    (note,) = (note for note in table.notes if note.startswith("The paper, "))
    assert note.startswith("The paper, eurosat (")


def test_for_programs(tmp_path: Path) -> None:
    ablation = recorded_ablation(tmp_path, "penalty")
    rows = list(csv.DictReader(StringIO(ablation_to_csv(ablation))))
    assert len(rows) == 18
    # Of one level a record is missing, so that its datasets have a single seed in common.
    (short,) = [row for row in rows if not row["hm_low"]]
    assert short["dataset"] == AVERAGE
    for row in [row for row in rows if row is not short]:
        assert float(row["hm_low"]) < float(row["hm"]) < float(row["hm_high"])
    assert [row["penalty"] for row in rows if row["dataset"] == "average"][:2] == ["0", "0.1"]
    assert float(rows[0]["base"]) == pytest.approx(67.5)
    values = json.loads(json.dumps(ablation_to_values(ablation), allow_nan=False))
    assert values["ablation"] == "penalty"
    assert values["rows"][0]["numbers"]["novel"]["mean"] == pytest.approx(30)


@pytest.mark.parametrize(
    ("name", "ticks"),
    [
        ("penalty", ["0", "0.1", "0.5"]),
        ("pool", ["bundled", "no-names"]),
    ],
)
def test_the_plot(name: str, ticks: list[str], tmp_path: Path) -> None:
    ablation = recorded_ablation(tmp_path, name, words="0,1", learners="coop,kgcoop")
    files = plot_ablation(ablation)
    assert set(files) == {"svg", "png"}
    image = Image.open(BytesIO(files["png"]))
    assert image.width > 1500
    texts = re.findall(r"<!-- (.*?) -->", files["svg"].decode())
    assert {*ticks, "accuracy in %", ablation.axis} <= set(texts)
    assert texts.count("CoOp + IPL") == 1  # the legend
    assert {"base classes", "novel classes", "harmonic mean"} <= set(texts)


def test_one_method_needs_no_legend(tmp_path: Path) -> None:
    ablation = recorded_ablation(tmp_path, "interval", learners="coop")
    svg = plot_ablation(ablation)["svg"]
    texts = re.findall(r"<!-- (.*?) -->", svg.decode())
    assert plot_ablation(ablation)["svg"] == svg  # the same numbers, the same file
    assert "CoOp + IPL" not in texts
    title = "CoOp + IPL, average of 2 datasets, pocket, 16 shots: "
    assert title + "mean and standard deviation of 1 to 2 seeds" in texts
