"""Result tables: built from records, shown to people, and written for programs."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE
from ipl.bench.tables.methods import LEARNER_NAMES
from ipl.bench.tables.result_table import (
    ResultTable,
    display_tables,
    gains_to_csv,
    results_to_csv,
    results_to_values,
)
from ipl.display.table import tables_to_terminal
from tests.helpers.records import paper_records, record
from tests.helpers.result_tables import find_cell, result_table, result_tables


@pytest.fixture
def results(tmp_path: Path) -> list[ResultTable]:
    """Returns a table with a comparable dataset, a failed run, another setting and a gain."""
    runs = [run for run in paper_records() if run["dataset"] == "oxford_pets"]
    runs += [record("eurosat", seed=seed, views=8) for seed in (1, 2)]
    runs += [record("eurosat", seed=3, views=8, error="It burnt | down.")]
    runs += [record("oxford_pets", words=0, seed=seed) for seed in (1, 2, 3)]
    return result_tables(tmp_path, *runs)


def terminal_text(results: list[ResultTable]) -> str:
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(tables_to_terminal(display_tables(results)))
    return captured.get()


@pytest.mark.parametrize("learner", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
def test_the_paper_reproduces_itself(learner: str, tmp_path: Path) -> None:
    runs = [*paper_records(learner, words=0), *paper_records(learner, words="paper")]
    table = result_table(tmp_path, *runs)
    assert table.datasets == paper.ELEVEN
    name = LEARNER_NAMES[learner]
    assert [method.label for method in table.methods] == [name, f"{name} + IPL"]
    assert len(table.notes) == 1  # on the number of test images
    for cell in table.cells:
        assert cell.comparable, (cell.dataset, cell.differences, cell.gaps)
        assert cell.paper is not None
        for measure, number in cell.numbers.items():
            # An average that the paper prints is 0.014 off.
            assert number.mean == pytest.approx(cell.paper[measure], abs=0.015)
    average = find_cell(table, AVERAGE, f"{name} + IPL")
    assert average.numbers["base"].std == pytest.approx(0.5)
    assert average.seeds == (1, 2, 3)


def test_notes_say_where_the_published_numbers_are_from(tmp_path: Path) -> None:
    hand_made = [record(name, "zero-shot", 0) for name in paper.ELEVEN]
    notes = display_tables(result_tables(tmp_path / "a", *hand_made))[0].notes
    assert "its weights (SHA-256 abababababab) were not compared" in notes[3]
    assert "CoCoOp's (Zhou et al., 2022)" in notes[4]
    ours = display_tables(result_tables(tmp_path / "b", *paper_records()))[0].notes
    assert not any("CoCoOp" in note for note in ours)
    other = [record(seed=seed, views=8) for seed in (1, 2, 3)]
    assert len(display_tables(result_tables(tmp_path / "c", *other))[0].notes) == 2


def across(seed: int, words: int | str, shift: float, **more: Any) -> dict[str, Any]:
    targets = dict.fromkeys(paper.TARGETS, 0.6 + shift)
    return record("imagenet", "coop", words, seed, {"imagenet": 0.7, **targets}, **more)


def test_across_datasets(tmp_path: Path) -> None:
    runs = [
        across(seed, words, shift + (words != 0) * 0.02, protocol="cross-dataset")
        for seed, shift in ((1, 0.0), (2, 0.01), (3, 0.02))
        for words in (0, "paper")
    ]
    table = result_table(tmp_path, *runs)
    assert (table.source, table.datasets) == ("imagenet", paper.ELEVEN)
    assert table.averaged == paper.TARGETS
    average = find_cell(table, AVERAGE, "CoOp + IPL")
    assert average.numbers["accuracy"].mean == pytest.approx(63)  # the source's 70 stays out
    assert average.numbers["accuracy"].std == pytest.approx(1)
    assert average.comparable
    assert average.paper == {"accuracy": 65.36}
    source, dtd = (find_cell(table, name, "CoOp + IPL") for name in ("imagenet", "dtd"))
    assert (source.comparable, source.paper) == (True, {"accuracy": 71.67})
    assert (dtd.comparable, dtd.paper) == (True, {"accuracy": 43.27})
    (gain,) = table.gains
    assert gain.effects["accuracy"].units == 3  # prompts, not targets
    assert gain.effects["accuracy"].difference == pytest.approx(2)

    failed = across(1, 0, 0, protocol="cross-dataset", error="The disk is full.")
    table = result_table(tmp_path / "failed", failed)
    assert table.datasets == paper.ELEVEN
    assert "seed 1 failed: The disk is full" in find_cell(table, "dtd", "CoOp").gaps[0]


def test_data_that_the_bundled_backbone_has_seen_is_named(tmp_path: Path) -> None:
    runs = [record(name, backbone="pocket") for name in ("eurosat", "dtd")]
    (note, _) = result_table(tmp_path / "pocket", *runs).notes
    assert "trained with images and class names of eurosat:" in note
    for name, backbone in (("eurosat", "other"), ("dtd", "pocket")):
        (note,) = result_table(tmp_path / name, record(name, backbone=backbone)).notes
        assert "PocketCLIP" not in note


def test_part_of_a_published_dataset_is_noted(tmp_path: Path) -> None:
    part = {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 180, "novel": 180}}
    runs = [record("dtd", seed=seed, data=part) for seed in (1, 2)]
    note = "dtd: 10 of its 47 classes, 360 of 1,692 test images"
    assert result_table(tmp_path, *runs, record("eurosat")).notes[:-1] == (f"{note}.",)
    assert result_table(tmp_path, *runs, record("dtd", seed=3)).notes[0] == f"{note} in some runs."
    accuracy = {"dtd": 0.5, "eurosat": 0.5, "mine": 0.5}
    fewer = {"classes": {"dtd": 47, "eurosat": 4, "mine": 2}}
    fewer["test_images"] = {"dtd": 1692, "eurosat": 8100, "mine": 9}
    across = record("dtd", accuracy=accuracy, protocol="cross-dataset", data=fewer)
    assert result_table(tmp_path / "b", across).notes[:-1] == ("eurosat: 4 of its 10 classes.",)


def test_images_that_were_left_out_are_noted(tmp_path: Path) -> None:
    run = record("oxford_pets")
    run["data"] |= {
        "missing_images": {"oxford_pets": 7},
        "unreadable_images": {"base": 0, "novel": 2},
    }
    run["data"]["test_images"]["novel"] -= 9
    missing, unreadable, _ = result_table(tmp_path, run).notes
    assert missing.startswith("7 test images of oxford_pets are missing")
    assert unreadable.startswith("2 test images of oxford_pets (novel) cannot be read")


def test_text(results: list[ResultTable], tmp_path: Path) -> None:
    assert "≠ [" in terminal_text(results)
    tmp_path = tmp_path / "paper"
    text = terminal_text(result_tables(tmp_path, *paper_records(words=0), *paper_records()))
    assert re.search(r"oxford_pets +CoOp +93.67 ± 0.50 .* 3 +93.67 / 95.29 / 94.47\n", text)
    assert re.search(r"average of 11 datasets +CoOp +82.69 .* 82.69 / 63.22 / 71.66\n", text)
    pairs = r"-0.19 +-\d.\d\d to \+\d.\d\d +11 \(33\)"
    assert re.search(rf"CoOp +everything +plain → words \[1-3\] +base +{pairs} +0.6621 ", text)
    assert "≠ [" not in text


def test_csv(results: list[ResultTable]) -> None:
    rows = list(csv.DictReader(StringIO(results_to_csv(results))))
    by_name = {(row["dataset"], row["method"]): row for row in rows}
    ours = by_name["oxford_pets", "CoOp + IPL (views fresh)"]
    assert float(ours["base"]) == pytest.approx(95.48)
    assert float(ours["base_std"]) == pytest.approx(0.5)
    assert 93 < float(ours["base_low"]) < float(ours["base"]) < float(ours["base_high"]) < 98
    assert float(ours["paper_base"]) == 95.48
    other = by_name["eurosat", "CoOp + IPL (views 8)"]
    assert (other["paper_base"], other["seeds"]) == ("", "1 2")
    assert "views is 8" in other["differs_from_paper"]
    assert other["gaps"].startswith("2 of 3 seeds")
    gains = list(csv.DictReader(StringIO(gains_to_csv(results))))
    assert [gain["measure"] for gain in gains] == ["base", "novel", "hm"]


def test_what_must_be_beaten_is_below_the_table_and_in_the_files(tmp_path: Path) -> None:
    runs = [record(words=0), record(learner="zero-shot", words=0)]
    results = result_tables(tmp_path, *runs)
    (sentence,) = results[0].verdicts
    assert "plain against zero-shot CLIP: +0.0 points of HM" in sentence
    (shown,) = display_tables(results)  # no table of gains: there is one arm
    assert sentence in shown.notes
    rows = list(csv.DictReader(StringIO(gains_to_csv(results))))
    assert {row["comparison"] for row in rows} == {"zero-shot"}
    (values,) = results_to_values(results)["tables"]
    assert values["verdicts"] == [sentence]
    assert values["baselines"][0]["from"] == "zero-shot CLIP"


def test_json(results: list[ResultTable]) -> None:
    values = json.loads(json.dumps(results_to_values(results, ["a note"]), allow_nan=False))
    assert values["unit"] == "%"
    assert values["warnings"] == ["a note"]
    (table,) = values["tables"]
    entries = {(e["dataset"], e["method"]): e for e in table["entries"]}
    ours = entries["oxford_pets", "CoOp + IPL (views fresh)"]
    assert ours["paper"]["novel"] == 96.5
    assert ours["numbers"]["novel"]["mean"] == pytest.approx(96.5)
    assert set(ours["numbers"]["hm"]) == {"mean", "std", "low", "high"}
    assert entries["eurosat", "CoOp + IPL (views 8)"]["paper"] is None
    assert table["gains"][0]["measures"]["base"]["pairs"] == 3
