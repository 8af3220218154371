"""Every rating as a row of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from ipl.explain.ratings.raters import Rater
from ipl.explain.ratings.study import Study
from ipl.support.files import write_text

CSV = "ratings.csv"
COLUMNS = ("study", "run", "method", "word", "rater", "rating", "time")


def write_sheet(folder: Path, study: Study, raters: Sequence[Rater]) -> Path:
    """Writes ratings.csv into a study's folder; returns its path."""
    path = folder / CSV
    write_text(path, sheet(folder.resolve().name, study, raters))
    return path


def sheet(name: str, study: Study, raters: Sequence[Rater]) -> str:
    """Returns the ratings, a row for each; a word that is in two lists has a row in each."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in study.runs:
        task = study.tasks[run.task]
        for method, words in run.lists.items():
            for word in words:
                item = task.name_of(word)
                for rater in raters:
                    if (answer := rater.answers.get(item)) is not None:
                        texts = (name, run.name, method, word, rater.name)
                        writer.writerow([*map(_inert, texts), answer.rating, answer.time])
    return file.getvalue()


def _inert(text: str) -> str:
    # A name such as "=1+1" was typed by anyone; a spreadsheet would compute it.
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
