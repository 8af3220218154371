"""Each writer writes the same predictions, batch by batch."""

from __future__ import annotations

import csv
import json
from io import StringIO

from ipl.inference.stream import Prediction
from ipl.inference.writers import COLUMNS, CsvWriter, JsonLinesWriter, TableWriter

BATCHES = [
    [
        Prediction("a.png", (("cat, tame", 0.75), ("dog", 0.25)), zero_shot="cat"),
        Prediction("b\n.png"),
    ],
    [Prediction("bad.png", error="not an image")],
]
ROWS = [
    ("a.png", 1, "cat, tame", 0.75, None, "cat"),
    ("a.png", 2, "dog", 0.25, None, "cat"),
    ("b\n.png", None, None, None, None, None),
    ("bad.png", None, None, None, "not an image", None),
]


def test_json_lines() -> None:
    stream = StringIO()
    writer = JsonLinesWriter(stream)
    for batch in BATCHES:
        writer.write(batch)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines == [prediction.as_dict() for batch in BATCHES for prediction in batch]


def test_csv_has_no_formulas() -> None:
    stream = StringIO(newline="")
    writer = CsvWriter(stream)
    odd = [Prediction("=1+1.png", (("@SUM(A1)", 0.5), ("-x", 1e-9))), Prediction("+a", error="-b")]
    for batch in (*BATCHES, odd):
        writer.write(batch)
    header, *rows = csv.reader(StringIO(stream.getvalue(), newline=""))
    assert tuple(header) == COLUMNS
    assert rows[:4] == [["" if cell is None else str(cell) for cell in row] for row in ROWS]
    assert rows[4:] == [
        ["'=1+1.png", "1", "'@SUM(A1)", "0.5", "", ""],
        ["'=1+1.png", "2", "'-x", "1e-09", "", ""],
        ["'+a", "", "", "", "'-b", ""],
    ]


def test_the_table_has_one_header_and_no_unreadable_images() -> None:
    stream = StringIO()
    writer = TableWriter(stream)
    for batch in (*BATCHES, BATCHES[0][:1]):
        writer.write(batch)
    header, first, second, last = stream.getvalue().splitlines()
    assert header.split() == ["image", "classes,", "most", "probable", "first"]
    assert first.split(maxsplit=1) == ["a.png", "cat, tame 75.0 %, dog 25.0 % (zero-shot: cat)"]
    assert second.split() == ["b\\n.png", "(none)"]
    assert last == first  # aligned with the first batch
