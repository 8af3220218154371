"""Tables in the paper's shape: its own records give its own numbers."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ipl.bench import paper_numbers as paper
from ipl.bench.paper_numbers import AVERAGE
from ipl.bench.records import RunRecord, read_records
from ipl.bench.tables.paper_tables import (
    DIFFERENCE,
    MEAN_OF_HM,
    PaperTable,
    as_published,
    paper_figures,
    paper_tables,
)
from ipl.bench.tables.result_table import rows_to_csv
from tests.helpers.records import paper_records, record, search, write_records

SEEDS = ((1, -0.5), (2, 0.0), (3, 0.5))


def read(folder: Path, *records: dict[str, Any]) -> list[RunRecord]:
    return read_records([write_records(folder, *records)])[0]


def tables_of(folder: Path, *records: dict[str, Any]) -> dict[str, PaperTable]:
    return {table.name: table for table in paper_tables(read(folder, *records))}


def value(table: PaperTable, label: str, column: str) -> float:
    (row,) = [row for row in table.rows if row[table.first] == label]
    number: float = row[column]
    return number


def without_penalty() -> list[dict[str, Any]]:
    """The paper's runs without the penalty, each dataset with its number of words."""
    records = []
    for name in paper.ELEVEN:
        numbers = paper.without_penalty()[name]
        for seed, shift in SEEDS:
            base, novel = numbers["base"] + shift, numbers["novel"] - shift
            accuracy = {"base": base / 100, "novel": novel / 100}
            records.append(record(name, "coop", paper.WORDS[name], seed, accuracy, lambda_=0))
    return records


def of_k(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with the paper's number of words for each dataset."""
    return [
        record(run["dataset"], "coop", paper.WORDS[run["dataset"]], run["seed"], run["accuracy"])
        for run in records
    ]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PaperTable]:
    """The tables of a folder with CoOp, with and without words, and the run without penalty."""
    folder = tmp_path_factory.mktemp("paper")
    words = of_k(paper_records("coop"))
    across = [
        record(
            "imagenet",
            "coop",
            2 * with_words,
            seed,
            {
                name: (table["coop", with_words][name]["accuracy"] + shift) / 100
                for name in (paper.SOURCE, *targets)
            },
            protocol,
            **({} if with_words else {"epochs": 50}),
        )
        for protocol, table, targets in (
            ("cross-dataset", paper.cross_dataset(), paper.TARGETS),
            ("domain", paper.domain(), paper.VARIANTS),
        )
        for with_words in (False, True)
        for seed, shift in SEEDS
    ]
    return tables_of(folder, *paper_records("coop", words=0), *words, *without_penalty(), *across)


def test_base_to_novel_has_the_printed_numbers_and_their_differences(
    tables: dict[str, PaperTable],
) -> None:
    table = tables["base-to-novel"]
    assert list(table.groups) == [AVERAGE, *paper.ELEVEN]
    labels = [row["method"] for row in table.rows]
    assert labels == ["CoOp", "in the paper", "CoOp + IPL", "in the paper"]
    for dataset in (*paper.ELEVEN, AVERAGE):
        expected = paper.base_to_novel()["coop", True][dataset]
        plain = paper.base_to_novel()["coop", False][dataset]
        for measure, heading in (("base", "base"), ("novel", "novel"), ("hm", "HM")):
            column = f"{dataset} {heading}"
            found = value(table, "CoOp + IPL", column)
            assert found == pytest.approx(expected[measure], abs=0.015)
            change = expected[measure] - plain[measure]
            difference = value(table, "CoOp + IPL", column + DIFFERENCE)
            assert difference == pytest.approx(change, abs=0.03)
    assert table.tables()[0].rows[2][2].startswith("70.00 (+6.7")  # average novel


def test_across_datasets_the_average_is_over_the_targets(tables: dict[str, PaperTable]) -> None:
    across, domain = tables["cross-dataset-imagenet"], tables["domain-imagenet"]
    assert value(across, "CoOp + IPL", AVERAGE) == pytest.approx(65.36, abs=0.01)
    assert value(domain, "CoOp", AVERAGE) == pytest.approx(59.28, abs=0.01)
    assert list(domain.groups) == ["imagenet", *paper.VARIANTS, AVERAGE]


def test_the_penalty_has_the_averages_of_both_ways(tables: dict[str, PaperTable]) -> None:
    table = tables["penalty-coop"]
    ways = {
        group: (
            round(value(table, AVERAGE, f"{group} HM"), 2),
            value(table, MEAN_OF_HM, f"{group} HM"),
        )
        for group in ("the paper's, with", "the paper's, without")
    }
    assert ways == {
        "the paper's, with": (75.74, 75.62),
        "the paper's, without": (73.98, 73.45),
    }
    assert value(table, AVERAGE, "with HM") == pytest.approx(75.74, abs=0.01)
    assert value(table, AVERAGE, "without HM") == pytest.approx(73.98, abs=0.01)
    expected = value(table, "dtd", "with novel") - 50.6
    assert value(table, "dtd", "difference novel") == pytest.approx(expected)
    shown = [cell for each in table.tables() for row in each.rows for cell in row]
    assert any(cell.startswith("\N{MINUS SIGN}") for cell in shown)
    assert not any(cell.startswith("-") and len(cell) > 1 for cell in shown)


def test_a_folder_with_ablations_still_has_the_papers_rows(tmp_path: Path) -> None:
    runs = [record("dtd", words=k, seed=s) for k in (1, 2, 3) for s in (1, 2)]
    runs += [record("dtd", words=3, interval=t) for t in (5, 20)]
    published = as_published(read(tmp_path, *runs))
    assert {(run.words, run.settings["interval"]) for run in published} == {(3, 10)}
    tables = tables_of(tmp_path, *runs)
    assert set(tables) == {"base-to-novel", "words-base-to-novel", "interval-base-to-novel"}
    labels = [row["method"] for row in tables["words-base-to-novel"].rows]
    assert labels == [f"CoOp + IPL (words {k})" for k in (1, 2, 3)]


def test_every_format_has_every_number() -> None:
    groups = ["average", "dtd", "scenes", "cars_x", "pets"]
    table = PaperTable("t", "Title", "method", groups, {"base": "base", "hm": "HM"})
    values = {name: {"base": 80.0, "hm": 70.125} for name in groups}
    table.add_row("A & B", values, {name: {"base": -0.004} for name in groups})
    table.notes.append("Note.")
    blocks = table.tables()
    assert [len(block.columns) for block in blocks] == [7, 5]  # at most nine numbers
    assert r"\multicolumn{2}{c}{cars\_x}" in blocks[1].to_latex()
    assert r"A \& B & 80.00 (0.00) & 70.12" in blocks[0].to_latex()
    assert [block.notes for block in blocks] == [[], ["Note."]]
    (line,) = csv.DictReader(StringIO(rows_to_csv(table.values())))
    assert (line["dtd base"], line["dtd base difference"]) == ("80.0", "-0.004")
    assert line["pets HM"] == "70.125"


def test_figures_are_those_that_the_records_have_numbers_for(tmp_path: Path) -> None:
    selection = {"selection": search((1.0, 1.0), (0.5, 0.1)), "chosen": ["a", "b"]}
    runs = [record(name, words=2) | selection for name in ("dtd", "eurosat")]
    assert set(paper_figures(read(tmp_path / "a", *runs))) == {"marginal-gain"}
    runs = [record(words=words) for words in (0, 1, 2, 3)]
    figures = paper_figures(read(tmp_path / "b", *runs))
    assert set(figures) == {"words-base-to-novel"}
    assert set(figures["words-base-to-novel"]) == {"svg", "png"}
