"""Each writer writes the same predictions, batch by batch."""

from __future__ import annotations

import csv
import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ipl.inference.prediction_stream import Prediction
from ipl.inference.prediction_writers import (
    COLUMNS,
    CsvWriter,
    JsonLinesWriter,
    ParquetWriter,
    TableWriter,
    predictions_to_frame,
)
from ipl.support.errors import ConfigError

BATCHES = [
    [Prediction("a.png", (("cat, tame", 0.75), ("dog", 0.25))), Prediction("b\n.png")],
    [Prediction("bad.png", error="not an image")],
]
ROWS = [
    ("a.png", 1, "cat, tame", 0.75, None),
    ("a.png", 2, "dog", 0.25, None),
    ("b\n.png", None, None, None, None),
    ("bad.png", None, None, None, "not an image"),
]


def test_json_lines() -> None:
    stream = StringIO()
    with JsonLinesWriter(stream) as writer:
        for batch in BATCHES:
            writer.write(batch)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines == [prediction.as_dict() for batch in BATCHES for prediction in batch]


def test_csv() -> None:
    stream = StringIO(newline="")
    with CsvWriter(stream) as writer:
        for batch in BATCHES:
            writer.write(batch)
    header, *rows = csv.reader(StringIO(stream.getvalue(), newline=""))
    assert tuple(header) == COLUMNS
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in ROWS]


def test_csv_has_no_formulas() -> None:
    stream = StringIO(newline="")
    with CsvWriter(stream) as writer:
        writer.write([Prediction("=1+1.png", (("@SUM(A1)", 0.5), ("-x", 1e-9)))])
        writer.write([Prediction("+a", error="-b")])
    _, *rows = csv.reader(StringIO(stream.getvalue(), newline=""))
    assert rows == [
        ["'=1+1.png", "1", "'@SUM(A1)", "0.5", ""],
        ["'=1+1.png", "2", "'-x", "1e-09", ""],
        ["'+a", "", "", "", "'-b"],
    ]


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("ipl.inference.prediction_writers.ROW_GROUP", 2)
    with ParquetWriter(tmp_path / "out.parquet") as writer:
        for batch in BATCHES:
            writer.write(batch)
    table = parquet.read_table(tmp_path / "out.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS


def test_a_frame() -> None:
    frame = predictions_to_frame(iter(BATCHES))
    assert tuple(frame.columns) == COLUMNS
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    assert list(rows) == ROWS
    assert (str(frame["rank"].dtype), str(frame["probability"].dtype)) == ("Int64", "float64")
    empty = predictions_to_frame([])
    assert (tuple(empty.columns), len(empty)) == (COLUMNS, 0)


def test_a_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"needs the package pandas; .* 'ipl\[data\]'"):
        predictions_to_frame(BATCHES)


def test_the_table_has_one_header_and_no_unreadable_images() -> None:
    stream = StringIO()
    with TableWriter(Console(file=stream, width=80)) as writer:
        for batch in (*BATCHES, BATCHES[0][:1]):
            writer.write(batch)
    header, first, second, last = stream.getvalue().splitlines()
    assert header.split() == ["image", "classes,", "most", "probable", "first"]
    assert first.split(maxsplit=1) == ["a.png", "cat, tame 75.0 %, dog 25.0 %"]
    assert second.split() == ["b\\n.png", "(none)"]
    assert last == first  # aligned with the first batch
