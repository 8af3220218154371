"""Result tables: shown to people, and written for programs."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.records import read_records
from ipl.bench.tables.paper_tables import paper_tables
from ipl.bench.tables.result_table import ResultTables, rows_to_csv
from tests.helpers.records import paper_records, record
from tests.helpers.result_tables import result_of


def tables_of(folder: Path, *runs: dict[str, Any]) -> ResultTables:
    return ResultTables(result_of(folder, *runs))


@pytest.fixture
def made(tmp_path: Path) -> ResultTables:
    """A dataset that is comparable with the paper, a failed run, another setting and a gain."""
    runs = [run for run in paper_records(words=3) if run["dataset"] == "oxford_pets"]
    runs += [record("eurosat", words=3, seed=seed, views=8) for seed in (1, 2)]
    runs += [record("eurosat", words=3, seed=3, views=8, error="It burnt | down.")]
    runs += [record("oxford_pets", words=0, seed=seed) for seed in (1, 2, 3)]
    return tables_of(tmp_path, *runs)


def test_the_papers_numbers_stand_beside_ours_or_the_reasons(made: ResultTables) -> None:
    table = made.results()
    rows = {row[1]: row for row in table.sections[0]}
    assert rows["CoOp + IPL (views fresh)"][2] == "95.48 ± 0.50"
    assert rows["CoOp + IPL (views fresh)"][-1] == "95.48 / 96.50 / 95.99"
    assert any("views is 8, not fresh" in note for note in table.footnotes)
    assert any("seed 3 failed: It burnt | down" in note for note in table.footnotes)
    assert r"It burnt \| down" in table.to_markdown()


def test_an_average_compares_only_rows_with_all_datasets(tmp_path: Path) -> None:
    runs = [record(name, words=w) for name in ("dtd", "eurosat") for w in (0, 3)]
    runs += [record("dtd", "maple", 0)]
    sections = tables_of(tmp_path, *runs).results().sections
    assert [row[1] for row in sections[-2]] == ["CoOp", "CoOp + IPL"]
    (other,) = sections[-1]
    assert other[1] == "MaPLe"
    assert other[-2].startswith("1 [")  # a footnote says what is missing
    (grouped,) = paper_tables(read_records([tmp_path])[0])
    assert grouped.rows[-1]["method"] == "MaPLe †"


def test_csv_and_json_have_everything(made: ResultTables) -> None:
    rows = list(csv.DictReader(StringIO(rows_to_csv(made.cell_rows()))))
    by_name = {(row["dataset"], row["method"]): row for row in rows}
    ours = by_name["oxford_pets", "CoOp + IPL (views fresh)"]
    assert float(ours["base"]) == pytest.approx(95.48)
    assert float(ours["base_std"]) == pytest.approx(0.5)
    assert float(ours["paper_base"]) == 95.48
    other = by_name["eurosat", "CoOp + IPL (views 8)"]
    assert (other["paper_base"], other["seeds"], other["learner"]) == ("", "1 2", "coop")
    assert "views is 8" in other["differs_from_paper"]
    values = json.loads(json.dumps(made.values(), allow_nan=False))
    assert values["entries"][0]["dataset"] == made.cell_rows()[0]["dataset"]
    assert [gain["measure"] for gain in values["gains"]] == ["base", "novel", "hm"]
    assert values["gains"][0]["pairs"] == 3


# -- notes ----------------------------------------------------------------------------------------


def test_data_that_the_bundled_backbone_has_seen_is_named(tmp_path: Path) -> None:
    runs = [record(name, backbone="pocket") for name in ("eurosat", "dtd")]
    notes = tables_of(tmp_path / "pocket", *runs).notes
    assert any("class names of eurosat:" in note for note in notes)
    other = tables_of(tmp_path / "other", record("eurosat")).notes
    assert not any("PocketCLIP" in note for note in other)


def test_images_that_were_left_out_are_noted(tmp_path: Path) -> None:
    run = record("oxford_pets")
    run["data"] |= {"missing_images": {"oxford_pets": 7}, "unreadable_images": {"novel": 2}}
    notes = tables_of(tmp_path, run).notes
    assert any(note.startswith("7 test images of oxford_pets are missing") for note in notes)
    assert any("oxford_pets (novel) cannot be read" in note for note in notes)


def test_the_number_of_test_images_limits_what_is_known(tmp_path: Path) -> None:
    data = {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 100, "novel": 400}}
    notes = tables_of(tmp_path / "a", record("mine", data=data)).notes
    # Wilson's half width at one half: z / 2 / sqrt(n + z^2), z = 1.96.
    assert "± 9.6 points on mine (100 images)" in notes[-1]
    unknown = record("mine", "linear-probe", 0, accuracy={"base": 0.9}) | {"data": {}}
    assert tables_of(tmp_path / "b", unknown).notes == []
