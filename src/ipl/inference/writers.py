"""Predictions as they come: a table for people; CSV, JSON lines or Parquet for machines."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ipl.inference.predictions import Prediction, printable
from ipl.support.errors import ConfigError

COLUMNS = ("image", "rank", "class", "probability", "error")
ROWS = 8192  # in a row group of Parquet


class Writer(ABC):
    """Writes predictions, a batch after the other; what it holds does not grow with them."""

    @abstractmethod
    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes a batch."""

    def close(self) -> None:  # noqa: B027 (most have nothing left)
        """Writes what is left."""

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()


class TableWriter(Writer):
    """Lines for people; images that cannot be read are left to warnings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._longest = 0  # name so far, so that later batches stand below earlier ones
        self._begun = False

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes the lines of a batch, the first below a head."""
        good = [prediction for prediction in predictions if prediction.error is None]
        if not good:
            return
        self._longest = max(self._longest, *(len(prediction.shown) for prediction in good))
        table = Table(box=None, pad_edge=False, show_header=not self._begun)
        widest = max(5, self.console.width // 2)
        table.add_column("image", overflow="fold", min_width=min(self._longest, widest))
        table.add_column("classes, most probable first")
        for prediction in good:
            ranked = [f"{name} {100 * value:.1f} %" for name, value in prediction.classes]
            table.add_row(Text(prediction.shown), Text(printable(", ".join(ranked) or "(none)")))
        self.console.print(table)
        self._begun = True


class JsonLinesWriter(Writer):
    """An object a line: image and classes, or image and error."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes a line for each image."""
        rows = (json.dumps(one.as_dict(), ensure_ascii=False) + "\n" for one in predictions)
        self.stream.write("".join(rows))
        self.stream.flush()


class CsvWriter(Writer):
    """A row for each class that is told, the columns as in COLUMNS."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.rows = csv.writer(stream, lineterminator="\n")
        self.rows.writerow(COLUMNS)

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Writes the rows of a batch."""
        self.rows.writerows(_rows(predictions))
        self.stream.flush()


class ParquetWriter(Writer):
    """The same rows as CSV's, in a Parquet file."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise ConfigError(
                "--format parquet needs a package that is not installed: "
                "`pip install 'ipl[parquet]'`."
            ) from None
        self._arrow = pyarrow
        kinds = (pyarrow.string(), pyarrow.int32(), pyarrow.string(), pyarrow.float32())
        fields = zip(COLUMNS, (*kinds, pyarrow.string()), strict=True)
        self._schema = pyarrow.schema(list(fields))
        self._file: Any = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._waiting: list[tuple[Any, ...]] = []

    def write(self, predictions: Sequence[Prediction]) -> None:
        """Takes the rows of a batch, and writes them once there are enough."""
        self._waiting.extend(_rows(predictions))
        if len(self._waiting) >= ROWS:
            self._flush()

    def close(self) -> None:
        """Writes what is left, and the file's end."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._waiting:
            columns = dict(zip(COLUMNS, zip(*self._waiting, strict=True), strict=True))
            self._file.write_table(self._arrow.table(columns, schema=self._schema))
            self._waiting = []


def _rows(predictions: Sequence[Prediction]) -> list[tuple[Any, ...]]:
    """Returns rows as in COLUMNS; an image without a class to tell has one without a class."""
    rows: list[tuple[Any, ...]] = []
    for prediction in predictions:
        if not prediction.classes:
            rows.append((prediction.image, None, None, None, prediction.error))
        for rank, (name, value) in enumerate(prediction.classes, start=1):
            rows.append((prediction.image, rank, name, value, None))
    return rows
