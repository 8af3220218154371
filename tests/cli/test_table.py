"""`ipl table DIR`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.records import record, search, write_records

Call = Callable[..., Any]


@pytest.fixture
def bench(home: Path) -> Path:
    runs = [record(words=words, seed=seed) for words in (0, 3) for seed in (1, 2, 3)]
    return write_records(home / "bench", *runs)


def test_it_prints_and_writes_all_formats(ipl: Call, bench: Path) -> None:
    shown = ipl("table", bench)
    assert shown.code == 0
    assert "Base-to-novel" in shown.out
    names = {path.name for path in (bench / "tables").iterdir()}
    assert names == {"table.md", "table.csv", "table.tex", "table.json", "gains.csv"}
    assert json.loads((bench / "tables" / "table.json").read_text())["unit"] == "%"


def test_the_papers_tables_and_figures(ipl: Call, bench: Path) -> None:
    chosen = {"chosen": ["furry"], "selection": search((1.0,))}
    write_records(bench, *(record(words=1, seed=seed) | chosen for seed in (1, 2, 3)))
    shown = ipl("table", bench, "--paper")
    assert shown.code == 0
    assert "oxford_pets HM" in shown.out
    names = {path.name for path in (bench / "tables" / "paper").iterdir()}
    for name in ("base-to-novel", "words-base-to-novel", "cost"):
        assert {f"{name}.{ending}" for ending in ("md", "tex", "csv")} <= names
    assert {"words-base-to-novel.svg", "words-base-to-novel.png"} <= names
    for option in (["--json"], ["--format", "md"], [bench]):
        assert "DIR/tables/paper" in ipl("table", bench, "--paper", *option).error


def test_cost_is_shown_on_request_or_if_it_was_profiled(ipl: Call, bench: Path) -> None:
    assert "cost" not in ipl("table", bench, "--json").json
    assert len(ipl("table", bench, "--json", "--cost").json["cost"]) == 2
    usage = {"source": "nvml", "utilisation": {"mean": 50.0}}
    write_records(bench, record(words=3, seed=4) | {"profile": usage, "peak_memory": 10**9})
    assert "utilisation, %" in ipl("table", bench).out
    assert (bench / "tables" / "cost.csv").is_file()


@pytest.mark.parametrize(
    ("style", "start"),
    [
        ("md", "### Base-to-novel"),
        ("csv", "protocol,source,method,"),
        ("latex", "% needs"),
        ("json", "{"),
    ],
)
def test_one_format_goes_to_standard_output(style: str, start: str, ipl: Call, bench: Path) -> None:
    shown = ipl("table", bench, "--format", style)
    assert shown.out.startswith(start)
    assert not (bench / "tables").exists()


def test_a_damaged_record_is_warned_of(ipl: Call, bench: Path) -> None:
    (bench / "records" / "broken.json").write_text("{")
    shown = ipl("table", bench, "--json", "--quiet")
    assert shown.code == 2
    assert "1 damaged record" in shown.err
    assert "broken.json is not valid JSON" in shown.err
    assert len(shown.json["warnings"]) == 1
    assert shown.json["tables"]


def test_words_in_place_of_the_results(ipl: Call, bench: Path) -> None:
    chosen = {"chosen": ["furry", "pet", "dog"]}
    write_records(bench, *(record(words=3, seed=seed) | chosen for seed in (1, 2)))
    shown = ipl("table", bench, "--words")
    assert "furry, veterinary, adopt" in shown.out
    assert "Base-to-novel" not in shown.out
    names = {path.name for path in (bench / "tables").iterdir()}
    assert names == {"words.md", "words.csv", "words.tex", "words.json"}
    values = ipl("table", bench, "--words", "--json").json
    assert [one.get("seed") for one in values["searches"]] == [1, 2, None]  # and the paper's
    assert "exclude each other" in ipl("table", bench, "--words", "--cost").error


def test_refused(ipl: Call, bench: Path, home: Path) -> None:
    assert "There is no folder" in ipl("table", home / "nowhere").error
    (home / "empty").mkdir()
    assert "There is no run record in" in ipl("table", home / "empty").error
    assert "--format is 'pdf'" in ipl("table", bench, "--format", "pdf").error
