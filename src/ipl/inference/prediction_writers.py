"""Writers of a stream of predictions: a table for people, or CSV, JSON lines, Parquet."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ipl.display.table import without_formula
from ipl.inference.prediction_stream import Prediction, printable
from ipl.support.extras import make_frame, require

if TYPE_CHECKING:
    import pandas

COLUMNS = ("image", "rank", "class", "probability", "error")
ROW_GROUP = 8192  # rows


class PredictionWriter(ABC):
    """Writes predictions batch by batch; its memory does not grow with their number."""

    @abstractmethod
    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes a batch."""

    def close(self) -> None:  # noqa: B027 (most writers hold nothing back)
        """Writes the remaining rows."""

    def __enter__(self) -> PredictionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()


class TableWriter(PredictionWriter):
    """Lines for people, without the images that cannot be read."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._width = 0  # of the longest path so far, so that batches are aligned
        self._has_header = False

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes the lines of a batch, the first batch below a header."""
        readable = [prediction for prediction in predictions if prediction.error is None]
        if not readable:
            return
        self._width = max(self._width, *(len(each.printable_image) for each in readable))
        table = Table(box=None, pad_edge=False, show_header=not self._has_header)
        max_width = max(5, self.console.width // 2)
        table.add_column("image", overflow="fold", min_width=min(self._width, max_width))
        table.add_column("classes, most probable first")
        for prediction in readable:
            ranked = [f"{name} {100 * value:.1f} %" for name, value in prediction.classes]
            classes = printable(", ".join(ranked) or "(none)")
            table.add_row(Text(prediction.printable_image), Text(classes))
        self.console.print(table)
        self._has_header = True


class JsonLinesWriter(PredictionWriter):
    """One JSON object per line: image and classes, or image and error."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes a line for each image."""
        lines = (json.dumps(each.as_dict(), ensure_ascii=False) + "\n" for each in predictions)
        self.stream.write("".join(lines))
        self.stream.flush()


class CsvWriter(PredictionWriter):
    """One row for each class of an image, with the columns in COLUMNS.

    Texts that a spreadsheet would take for a formula get a `'` in front.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.rows = csv.writer(stream, lineterminator="\n")
        self.rows.writerow(COLUMNS)

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes the rows of a batch."""
        for row in _rows(predictions):
            cells = [without_formula(cell) if isinstance(cell, str) else cell for cell in row]
            self.rows.writerow(cells)
        self.stream.flush()


class ParquetWriter(PredictionWriter):
    """The same rows as in CSV, in a Parquet file."""

    def __init__(self, path: Path) -> None:
        require("--format parquet", "data", "pyarrow")
        import pyarrow
        import pyarrow.parquet

        self._arrow = pyarrow
        text, integer, real = pyarrow.string(), pyarrow.int32(), pyarrow.float32()
        types = (text, integer, text, real, text)
        self._schema = pyarrow.schema(list(zip(COLUMNS, types, strict=True)))
        self._file: Any = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._rows: list[tuple[Any, ...]] = []

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Collects the rows of a batch, and writes them once there are enough."""
        self._rows.extend(_rows(predictions))
        if len(self._rows) >= ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """Writes the remaining rows and the end of the file."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            columns = dict(zip(COLUMNS, zip(*self._rows, strict=True), strict=True))
            self._file.write_table(self._arrow.table(columns, schema=self._schema))
            self._rows = []


def predictions_to_frame(batches: Iterable[Sequence[Prediction]]) -> pandas.DataFrame:
    """Returns predictions as a frame of pandas, with the rows of a CSV file.

    Parameters
    ----------
    batches : iterable of sequences of Prediction
        What `predict_stream` yields; all of it must fit into memory.

    Returns
    -------
    pandas.DataFrame
        The columns image, rank, class, probability and error; a row for each class of an image,
        and one for an image that cannot be read.

    Raises
    ------
    ConfigError
        If pandas is not installed.
    """
    frame = make_frame([row for batch in batches for row in _rows(batch)], COLUMNS)
    return frame.astype({"rank": "Int64", "probability": "float64"})


def _rows(predictions: Sequence[Prediction]) -> list[tuple[Any, ...]]:
    """Returns rows with the columns in COLUMNS; an image without classes has one row."""
    rows: list[tuple[Any, ...]] = []
    for prediction in predictions:
        if not prediction.classes:
            rows.append((prediction.image, None, None, None, prediction.error))
        for rank, (name, value) in enumerate(prediction.classes, start=1):
            rows.append((prediction.image, rank, name, value, None))
    return rows
