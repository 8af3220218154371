"""Blind sheets of words for people to rate, and what the filled sheets say."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ipl.backbone.backbone import Backbone
from ipl.config import PLAIN
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.explain.inputs import LoadedRun, load_run
from ipl.explain.several_runs import run_names
from ipl.learners.learner import Learner
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import read_text, write_json, write_text
from ipl.support.plain_values import from_plain
from ipl.support.progress import SILENT, Reporter

METHODS = ("prompt", "nearest", "random")
COLUMNS = ("id", "dataset", "classes", "words", "rating")


@dataclass(frozen=True)
class WordSet:
    """Words of one origin: a run's prompt, near its plain learner's vectors, or random."""

    run: str
    method: str
    dataset: str
    classes: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Ratings:
    """What filled sheets say."""

    means: dict[str, float | None]  # of each method over its sets; None where nobody rated
    alpha: float | None
    notes: tuple[str, ...]

    def table(self) -> Table:
        shown = {name: "-" if mean is None else f"{mean:.2f}" for name, mean in self.means.items()}
        table = Table(("words from", "mean rating"), list(shown.items()), numbers=["mean rating"])
        table.notes.extend(self.notes)
        return table


# -- writing a sheet ----------------------------------------------------------------------------


def word_sets(
    folders: Sequence[Path],
    words_file: Path | None = None,
    backbone: str | Backbone | None = None,
    reporter: Reporter = SILENT,
) -> list[WordSet]:
    """Three sets for each run whose words a search chose; one without words gives the nearest."""
    runs = []
    with reporter.task("Reading runs", len(folders)) as advance:
        for folder in folders:
            runs.append(load_run(folder, backbone, words_file=words_file, cache=False))
            advance()
    sets = []
    for name, run in zip(run_names(folders), runs, strict=True):
        if run.selection is None or not run.words:
            continue
        if run.pool is None:
            raise ConfigError(
                f"The run {run.folder} chose from a list of words that is not the bundled one: "
                "give --words-file."
            )
        words = {
            "prompt": run.words,
            "nearest": nearest_words(_plain_learner(run, runs), len(run.words)),
            "random": run.pool.draw(run.words, random.Random(0)),
        }
        classes = ", ".join(run.classes)
        sets += [WordSet(name, origin, run.result.data, classes, words[origin]) for origin in words]
    if not sets:
        raise ConfigError("None of these runs has words that a search chose.")
    return sets


def _plain_learner(run: LoadedRun, runs: Sequence[LoadedRun]) -> Learner:
    """That of the run without words that belongs to a run; of the same seed, if several do."""

    def trained(one: LoadedRun) -> tuple[object, ...]:
        return one.result.config.learner, one.classes, one.result.backbone["weights_sha256"]

    plain = [other for other in runs if other.result.config.arm == PLAIN]
    found = [other for other in plain if trained(other) == trained(run)]
    if not found:
        raise ConfigError(
            f"No run without words belongs to {run.folder}: fit its data with --words 0, the same "
            f"learner ({run.result.config.learner}) and backbone, and give that run as well."
        )
    seed = run.result.config.seed
    return min(found, key=lambda one: one.result.config.seed != seed).learner


def nearest_words(learner: Learner, count: int) -> tuple[str, ...]:
    """The tokens nearest to a learner's soft vectors: the nearest of each, then the second ones."""
    # Twice as many, because two tokens may look the same: a word and a piece of one.
    nearest = learner.backbone.nearest_tokens(learner.soft.detach(), 2 * count)
    tokens = (token for rank in zip(*nearest, strict=True) for token in rank)
    return tuple(dict.fromkeys(tokens))[:count]


def write_sheet(path: Path, sets: Sequence[WordSet]) -> int:
    """Writes a sheet in random order and its key beside it; returns the number of rows.

    A row does not tell where its words come from; sets that look the same share one.
    """
    shown = [(one.dataset, one.classes, ", ".join(sorted(one.words))) for one in sets]
    rows = sorted(set(shown))
    stream = random.Random(str(rows))
    stream.shuffle(rows)
    # Letters alone: a spreadsheet would take 12e45678 for a number and set-1 for a date.
    id_of = {row: "".join(stream.choices("bcdfghjkmnpqrstvwxz", k=8)) for row in rows}
    key = [{"id": id_of[row], **asdict(one)} for row, one in zip(shown, sets, strict=True)]
    write_json(key_of(path), key)
    table = Table(COLUMNS, [(id_of[row], *row, "") for row in rows])
    write_text(path, "\ufeff" + table.to_csv())  # without the mark Excel takes it for Latin-1
    return len(rows)


def key_of(sheet: Path) -> Path:
    """The file beside a sheet that tells whose words are in which row."""
    return sheet.with_suffix(".key.json")


# -- reading filled sheets ----------------------------------------------------------------------


def read_sheets(sheets: Sequence[Path]) -> Ratings:
    """What the sheets say; their key is the only one beside the first."""
    if len({sheet.resolve() for sheet in sheets}) < len(sheets):
        raise ConfigError("A sheet is given twice; give the sheet of each rater once.")
    sets = _read_key(sheets[0].parent)
    names = list(dict.fromkeys(name for name, _ in sets))
    values = np.full((len(sheets), len(names)), np.nan)
    notes = []
    for rater, sheet in enumerate(sheets):
        ratings = _read_sheet(sheet)
        if unknown := set(ratings) - set(names):
            raise DataError(f"{sheet} has the id {min(unknown)!r}, which is not in the key.")
        values[rater] = [ratings.get(name, np.nan) for name in names]
        if missing := len(names) - len(ratings):
            notes.append(f"{sheet}: {missing} of {len(names)} ratings are missing.")
    means = dict[str, float | None]()
    for method in METHODS:
        columns = [values[:, names.index(name)] for name, one in sets if one.method == method]
        rated = [np.nanmean(each) for each in columns if not np.isnan(each).all()]
        means[method] = float(np.mean(rated)) if rated else None
    alpha = krippendorff_alpha(values)
    agreement = (
        "no Krippendorff's alpha, which needs two raters of a set and ratings that differ"
        if alpha is None
        else f"Krippendorff's alpha (ordinal) {alpha:.3f}; 1 is perfect agreement, 0 is chance"
    )
    return Ratings(means, alpha, (f"{several(len(sheets), 'rater')}; {agreement}.", *notes))


def _read_key(folder: Path) -> list[tuple[str, WordSet]]:
    found = sorted(folder.glob("*.key.json"))
    if len(found) != 1:
        raise DataError(
            f"There are {len(found)} keys (*.key.json) in {folder}; put the sheets beside the key "
            "that was written with them, and no other."
        )
    text = read_text(found[0])
    try:
        values = json.loads(text)
        return [(from_plain(str, one["id"], "id"), from_plain(WordSet, one)) for one in values]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise DataError(f"{found[0]} is not the key of a sheet.") from None


def _read_sheet(path: Path) -> dict[str, float]:
    """The ratings of a sheet by id, without rows that are not rated."""
    text = read_text(path)
    # In many countries spreadsheets separate by semicolons.
    reader = csv.DictReader(StringIO(text), delimiter=";" if text.startswith("id;") else ",")
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from None
    if not {"id", "rating"} <= set(reader.fieldnames or ()):
        raise DataError(f"{path} has no columns id and rating; it is not a sheet.")
    ratings: dict[str, float] = {}
    for row in rows:
        name, rating = row["id"], (row["rating"] or "").strip().removesuffix(".0")
        if not rating:
            continue
        if rating not in ("1", "2", "3", "4", "5"):
            raise DataError(f"{path}: the rating of {name} is {rating!r}; allowed are 1 to 5.")
        ratings[name] = float(rating)
    if not ratings:
        raise DataError(f"{path} has no rating; its column `rating` is empty.")
    return ratings


def krippendorff_alpha(ratings: NDArray[np.float64]) -> float | None:
    """The ordinal alpha of ratings (raters, units), where NaN is a missing rating.

    alpha = 1 - observed / expected disagreement. Observed: over the pairs of ratings of one unit;
    expected: over the pairs of all ratings, whichever unit they are of. None if no unit has two
    ratings, or all ratings are the same.
    """
    paired = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
    values, totals = np.unique(paired[~np.isnan(paired)], return_counts=True)
    if len(values) < 2:
        return None
    # How often two values (values, values) occur in one unit: each pair is counted both ways, and
    # a unit of m ratings has m (m - 1) of them, divided by m - 1.
    coincidences = np.zeros((len(values), len(values)))
    for unit in paired.T:
        counts = (unit == values[:, None]).sum(axis=1)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (counts.sum() - 1)
    # How many ratings lie between two values, each of the two counted half.
    middle = np.cumsum(totals) - totals / 2
    distance = np.subtract.outer(middle, middle) ** 2
    count = totals.sum()
    observed = (coincidences * distance).sum() / count
    expected = (np.outer(totals, totals) * distance).sum() / (count * (count - 1))
    return float(1 - observed / expected)
