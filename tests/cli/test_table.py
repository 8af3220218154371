"""`ipl table DIR`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.page_check import check_page
from tests.helpers.records import record, write_records

Call = Callable[..., Any]


@pytest.fixture
def bench(home: Path) -> Path:
    runs = [record(words=words, seed=seed) for words in (0, 3) for seed in (1, 2, 3)]
    return write_records(home / "bench", *runs)


def test_it_prints_and_writes_all_formats(ipl: Call, bench: Path) -> None:
    shown = ipl("table", bench)
    assert shown.code == 0
    assert "Base-to-novel" in shown.out
    assert f"Saved:  {bench / 'tables'}" in shown.err
    names = {path.name for path in (bench / "tables").iterdir()}
    assert names == {"table.md", "table.csv", "table.tex", "table.json", "gains.csv"}
    assert json.loads((bench / "tables" / "table.json").read_text())["unit"] == "%"


def test_a_page_with_figures_which_are_files_too(ipl: Call, bench: Path) -> None:
    write_records(bench, *(record(words=5, seed=seed) for seed in (1, 2, 3)))
    assert f"Page:   {bench / 'tables' / 'index.html'}" in ipl("table", bench, "--page").err
    figures = {path.name for path in (bench / "tables" / "figures").iterdir()}
    assert {"words-base-to-novel.svg", "words-base-to-novel.png"} <= figures
    page = check_page((bench / "tables" / "index.html").read_text(encoding="utf-8"))
    assert "Base-to-novel. Accuracy in %" in "".join(page.text)
    assert 2 * len(page.of("img")) == len(figures)


def test_cost_is_shown_on_request_or_if_it_was_profiled(ipl: Call, bench: Path) -> None:
    assert "cost" not in ipl("table", bench, "--json").json
    assert len(ipl("table", bench, "--json", "--cost").json["cost"]["rows"]) == 2
    assert "### Cost" in ipl("table", bench, "--format", "md", "--cost").out
    usage = {"source": "nvml", "utilisation": {"mean": 50.0, "p95": 90.0, "above_50": 0.5}}
    write_records(bench, record(words=3, seed=4) | {"profile": usage, "peak_memory": 10**9})
    shown = ipl("table", bench, "--page")
    assert "utilisation, %" in shown.out
    assert "4.66" in shown.out
    names = {path.name for path in (bench / "tables").iterdir()}
    assert {"cost.csv", "figures"} <= names


@pytest.mark.parametrize(
    ("style", "start"),
    [
        ("md", "### Base-to-novel"),
        ("csv", "protocol,source,method,"),
        ("latex", "% needs"),
        ("json", "{"),
        ("text", "Base-to-novel"),
    ],
)
def test_one_format_goes_to_standard_output(style: str, start: str, ipl: Call, bench: Path) -> None:
    shown = ipl("table", bench, "--format", style)
    assert shown.out.startswith(start)
    assert not (bench / "tables").exists()


def test_a_file_that_exists_is_not_replaced_unasked(ipl: Call, bench: Path, home: Path) -> None:
    (home / "t.md").write_text("mine")
    refused = ipl("table", bench, "--out", home / "t.md")
    assert (refused.code, (home / "t.md").read_text()) == (2, "mine")
    assert "t.md already exists; choose another file with --out, or replace it" in refused.error
    assert ipl("table", bench, "--out", home / "t.md", "--overwrite").code == 0
    assert "oxford" in (home / "t.md").read_text(encoding="utf-8")
    assert ipl("table", bench).code == 0  # its own files it replaces
    assert ipl("table", bench, "--out", bench / "tables" / "table.md").code == 0
    (home / "table.md").write_text("mine")
    assert ipl("table", bench, "--out", home / "table.md").code == 2


def test_several_folders_are_one_table(ipl: Call, bench: Path, home: Path) -> None:
    other = write_records(home / "other", record("eurosat", seed=1))
    shown = ipl("table", bench, other, "--json").json
    assert {entry["dataset"] for entry in shown["tables"][0]["entries"]} == {
        "oxford_pets",
        "eurosat",
        "average",
    }
    ipl("table", bench)
    before = {path: path.read_bytes() for path in bench.rglob("*") if path.is_file()}
    assert "eurosat" in ipl("table", bench, other).out
    # These are the tables of one folder.
    assert before == {path: path.read_bytes() for path in bench.rglob("*") if path.is_file()}
    assert "it takes a single DIR" in ipl("table", bench, other, "--page").error


def test_a_damaged_record_is_warned_of(ipl: Call, bench: Path) -> None:
    (bench / "records" / "broken.json").write_text("{")
    shown = ipl("table", bench, "--json", "--quiet")
    assert shown.code == 2
    assert "error: 1 record is damaged and left out of the tables" in shown.err
    assert "warning: " in shown.err
    assert "broken.json is not valid JSON" in shown.err
    assert len(shown.json["warnings"]) == 1
    assert shown.json["tables"]


def test_words_in_place_of_the_results(ipl: Call, bench: Path) -> None:
    chosen = {"chosen": ["furry", "pet", "dog"]}
    write_records(bench, *(record(words=3, seed=seed) | chosen for seed in (1, 2)))
    shown = ipl("table", bench, "--words")
    assert shown.code == 0
    assert "furry, veterinary, adopt" in shown.out
    assert "Base-to-novel" not in shown.out
    names = {path.name for path in (bench / "tables").iterdir()}
    assert names == {"words.md", "words.csv", "words.tex", "words.json"}
    values = ipl("table", bench, "--words", "--json").json
    assert [one["seed"] for one in values["searches"]] == [1, 2]
    assert ipl("table", bench, "--words", "--format", "csv").out.startswith("table,dataset,")
    assert ipl("table", bench, "--words", "--out", bench / "w.tex").code == 0
    assert "furry, pet, dog" in (bench / "w.tex").read_text(encoding="utf-8")
    assert "contradict each other" in ipl("table", bench, "--words", "--cost").error


def test_refused(ipl: Call, bench: Path, home: Path) -> None:
    assert "There is no folder" in ipl("table", home / "nowhere").error
    (home / "empty").mkdir()
    assert "There is no run record in" in ipl("table", home / "empty").error
    assert "--format is 'pdf'; allowed are md, csv" in ipl("table", bench, "--format", "pdf").error
    for option in (["--json"], ["--words"], ["--out", home / "table.md"], ["--format", "md"]):
        assert "--page adds a page to" in ipl("table", bench, "--page", *option).error
    assert "must end in .md" in ipl("table", bench, "--out", home / "table").error
    refused = ipl("table", bench, "--out", bench / "records", "--format", "md").error
    assert "Cannot write" in refused
