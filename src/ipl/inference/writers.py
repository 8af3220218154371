"""Writers of a stream of predictions: a table for people, CSV or JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ipl.display.table import without_formula
from ipl.inference.stream import Prediction
from ipl.support.files import to_json

COLUMNS = ("image", "rank", "class", "probability", "error", "zero-shot")


class TableWriter:
    """Lines for people, without the images that cannot be read."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._width = 0  # of the longest path so far, so that batches are aligned
        self._has_header = False

    def write(self, predictions: Sequence[Prediction]) -> None:
        readable = [prediction for prediction in predictions if prediction.error is None]
        if not readable:
            return
        names = [one_line(each.image) for each in readable]
        self._width = max(self._width, *map(len, names))
        table = Table(box=None, pad_edge=False, show_header=not self._has_header)
        max_width = max(5, self.console.width // 2)
        table.add_column("image", overflow="fold", min_width=min(self._width, max_width))
        table.add_column("classes, most probable first")
        for name, prediction in zip(names, readable, strict=True):
            ranked = [f"{each} {100 * value:.1f} %" for each, value in prediction.classes]
            shown = one_line(", ".join(ranked) or "(none)")
            if prediction.zero_shot is not None:
                shown += f" (zero-shot: {one_line(prediction.zero_shot)})"
            table.add_row(Text(name), Text(shown))
        self.console.print(table)
        self._has_header = True


class JsonLinesWriter:
    """One JSON object per line: image and classes, or image and error."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, predictions: Sequence[Prediction]) -> None:
        lines = (to_json(each.as_dict(), indent=None) + "\n" for each in predictions)
        self.stream.write("".join(lines))
        self.stream.flush()


class CsvWriter:
    """One row for each class of an image, or one for an image without classes.

    Texts that a spreadsheet would take for a formula get a `'` in front.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.rows = csv.writer(stream, lineterminator="\n")
        self.rows.writerow(COLUMNS)

    def write(self, predictions: Sequence[Prediction]) -> None:
        for each in predictions:
            rows: list[tuple[Any, ...]] = [
                (each.image, rank, name, value, None, each.zero_shot)
                for rank, (name, value) in enumerate(each.classes, start=1)
            ]
            for row in rows or [(each.image, None, None, None, each.error, each.zero_shot)]:
                self.rows.writerow(
                    [without_formula(cell) if isinstance(cell, str) else cell for cell in row]
                )
        self.stream.flush()


def one_line(text: str) -> str:
    """The text on one line, with characters that break it or move the cursor escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
