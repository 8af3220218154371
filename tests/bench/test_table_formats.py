"""Tables as people and programs get them."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from recorded import paper_records, record, write_records
from rich.console import Console

from ipl.bench.records import read_records
from ipl.bench.tables.machine_readable import as_csv, as_values, gains_as_csv
from ipl.bench.tables.result_table import ResultTable, build_tables
from ipl.bench.tables.sheets import sheets_of
from ipl.display.table import as_latex, as_markdown, as_text


def tables(tmp_path: Path, *records: dict[str, Any]) -> list[ResultTable]:
    return build_tables(read_records([write_records(tmp_path, *records)])[0])


@pytest.fixture
def found(tmp_path: Path) -> list[ResultTable]:
    """Returns a table with a comparable set, a failed run, another backbone and a gain."""
    runs = [run for run in paper_records() if run["dataset"] == "oxford_pets"]
    runs += [record("eurosat", seed=seed, views=8) for seed in (1, 2)]
    runs += [record("eurosat", seed=3, views=8, error="It burnt | down.")]
    runs += [record("oxford_pets", words=0, seed=seed) for seed in (1, 2, 3)]
    return tables(tmp_path, *runs)


def text_of(found: list[ResultTable], width: int = 200) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(as_text(sheets_of(found)))
    return captured.get()


def test_text(tmp_path: Path) -> None:
    text = text_of(tables(tmp_path, *paper_records(words=0), *paper_records()))
    assert "openai/clip-vit-base-patch16, 16 shots, words auto" in text
    assert re.search(r"oxford_pets +CoOp +93.67 ± 0.50 .* 3 +93.67 / 95.29 / 94.47\n", text)
    assert re.search(r"average of 11 datasets +CoOp +82.69 .* 82.69 / 63.22 / 71.66\n", text)
    assert re.search(r"CoOp \+ IPL +CoOp +base +-0.19 +33 +0.4008\n", text)
    assert "p: exact sign-flip permutation test, two-sided" in text
    assert "≠ [" not in text


def test_marks_and_footnotes(found: list[ResultTable]) -> None:
    found_text = text_of(found)
    sheet = sheets_of(found)[0]
    marked = [row for section in sheet.sections for row in section if "[" in "".join(row)]
    for row in marked:
        for number in re.findall(r"\d+", " ".join(re.findall(r"\[([\d,-]+)\]", " ".join(row)))):
            assert f"[{number}] {sheet.footnotes[int(number) - 1]}" in found_text
    assert "2 of 3 seeds (seed 3 failed: It burnt | down.)" in sheet.footnotes
    assert "not the paper's setting: views is 8, not fresh" in sheet.footnotes
    assert len(set(sheet.footnotes)) == len(sheet.footnotes)


def test_names_stay_on_a_narrow_terminal(found: list[ResultTable]) -> None:
    text = text_of(found, width=70)
    assert "CoOp" in text
    assert "oxford" in text
    assert "…" not in text


def test_one_data_set_needs_no_average(tmp_path: Path) -> None:
    assert "average" not in text_of(tables(tmp_path, record()))


def test_markdown(found: list[ResultTable]) -> None:
    text = as_markdown(sheets_of(found))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert widths == {8, 7}  # the table of results and the table of gains
    assert "| oxford\\_pets | CoOp |" in text
    assert "It burnt \\| down." in text


def test_latex(found: list[ResultTable]) -> None:
    text = as_latex(sheets_of(found))
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"oxford\_pets & CoOp & 80.00 $\pm$ 0.00" in text
    assert r"\textsuperscript{" in text
    assert "±" not in text
    assert "≠" not in text
    body = re.sub(r"\\[%&_#$]", "", text)
    assert len({line.count("&") for line in body.splitlines() if line.endswith(r"\\")}) == 2


def test_latex_takes_any_name(tmp_path: Path) -> None:
    text = as_latex(sheets_of(tables(tmp_path, record("50%_of{a}\\b~c^d&e#f$"))))
    assert r"50\%\_of\{a\}\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\&e\#f\$ & " in text


def test_csv(found: list[ResultTable]) -> None:
    rows = list(csv.DictReader(StringIO(as_csv(found))))
    by_name = {(row["dataset"], row["method"]): row for row in rows}
    ours = by_name["oxford_pets", "CoOp + IPL (views fresh)"]
    assert float(ours["base"]) == pytest.approx(95.48)
    assert float(ours["base_std"]) == pytest.approx(0.5)
    assert float(ours["paper_base"]) == 95.48
    other = by_name["eurosat", "CoOp + IPL (views 8)"]
    assert other["paper_base"] == ""
    assert "views is 8" in other["differs_from_paper"]
    assert other["seeds"] == "1 2"
    assert other["gaps"].startswith("2 of 3 seeds")
    gains = list(csv.DictReader(StringIO(gains_as_csv(found))))
    assert [gain["measure"] for gain in gains] == ["base", "novel", "hm"]
    assert gains_as_csv([]) == ""


def test_json(found: list[ResultTable]) -> None:
    values = json.loads(json.dumps(as_values(found, ["a note"]), allow_nan=False))
    assert values["unit"] == "%"
    assert values["warnings"] == ["a note"]
    (table,) = values["tables"]
    entries = {(e["dataset"], e["method"]): e for e in table["entries"]}
    ours = entries["oxford_pets", "CoOp + IPL (views fresh)"]
    assert ours["paper"]["novel"] == 96.5
    assert ours["numbers"]["novel"]["mean"] == pytest.approx(96.5)
    assert entries["eurosat", "CoOp + IPL (views 8)"]["paper"] is None
    assert table["gains"][0]["measures"]["base"]["pairs"] == 3
