"""Writers of a stream of predictions: a table for people, CSV or JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from ipl.display.table import without_formula
from ipl.inference.stream import Prediction
from ipl.support.files import to_json

COLUMNS = ("image", "rank", "class", "probability", "error", "zero-shot")


class TableWriter:
    """Lines for people, without the images that cannot be read."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._width = 0  # of the longest path so far, so that batches are aligned

    def write(self, predictions: Sequence[Prediction]) -> None:
        lines = []
        for each in predictions:
            if each.error is None:
                ranked = [f"{name} {100 * value:.1f} %" for name, value in each.classes]
                beside = f" (zero-shot: {each.zero_shot})" if each.zero_shot is not None else ""
                shown = f"{', '.join(ranked) or '(none)'}{beside}"
                lines.append((one_line(each.image), one_line(shown)))
        if lines and not self._width:
            lines.insert(0, ("image", "classes, most probable first"))
        self._width = max([self._width, *(len(image) for image, _ in lines)])
        self.stream.writelines(f"{image:<{self._width}}  {shown}\n" for image, shown in lines)
        self.stream.flush()


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


Writer = TableWriter | CsvWriter | JsonLinesWriter
WRITERS: dict[str, type[Writer]] = {
    "table": TableWriter,
    "csv": CsvWriter,
    "jsonl": JsonLinesWriter,
}
