"""The page of a bench: every table and figure, in a file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from ipl.bench.records import read_records
from ipl.bench.tables.figures import Drawing
from ipl.bench.tables.results_page import results_document
from ipl.display.page import as_html
from ipl.display.table import Table
from tests.helpers.page_check import check_page
from tests.helpers.records import record, write_records

SVG = b'<?xml version="1.0"?>\n<svg height="200pt" width="600pt"></svg>'


def test_tables_and_figures_stand_in_their_sections(tmp_path: Path) -> None:
    runs, _ = read_records([write_records(tmp_path, record(), record(seed=2, error="It burnt."))])
    tables = {
        "Base-to-novel": [Table(["method", "HM"], [["CoOp", "1.0"]], caption="The results")],
        "What it <costs>": [Table(["method", "s"], [["CoOp", "2.0"]], caption="The times")],
    }
    numbers = Table(["word", "gain"], [["1", "0.5"]], caption="The gains")
    drawing = Drawing(
        "returns", "Base-to-novel", "Figure <1>", "Falling lines.", {"svg": SVG}, numbers
    )
    text = as_html(results_document("mine & yours", runs, tables, [drawing], ["One was damaged."]))
    page = check_page(text)
    seen = "".join(page.text)
    assert "Results of mine & yours" in seen
    assert "2 runs, 1 of them failed." in seen
    assert "One was damaged." in seen
    assert "Figure <1>" in seen
    (image,) = page.of("img")
    assert (image["alt"], image["width"], image["class"]) == ("Falling lines.", "800", "scrolls")
    first, second = text.split("<section ")[1:]
    assert "The results" in first
    assert "The gains" in first
    assert "<img" in first
    assert "The times" in second
    assert "<img" not in second
