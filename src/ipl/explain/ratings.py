"""Blind sheets of words for people to rate, and what the filled sheets say."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ipl.backbone.backbone import Backbone
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.explain.baseline import read_baseline
from ipl.explain.compared_runs import run_names
from ipl.explain.loaded_run import load_run
from ipl.explain.vectors import nearest
from ipl.learners.learner import Learner
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import read_text, write_json, write_text
from ipl.support.progress import SILENT, Reporter
from ipl.training.result import FitResult
from ipl.words.frequency import RandomWords
from ipl.words.pool import Pool

METHODS = ("prompt", "nearest", "random")
COLUMNS = ("id", "dataset", "classes", "words", "rating")
SCALE = ("1", "2", "3", "4", "5")
MOST_CLASSES = 40  # that a sheet names
KEY = ".key.json"


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
    """What filled sheets say; a mean is None where nobody rated."""

    sets: tuple[tuple[WordSet, float | None], ...]  # each with its mean over raters
    means: dict[str, float | None]  # of each method over its sets
    alpha: float | None
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Returns the words of each run with their mean rating, and the mean of each method."""
        rows = [
            (one.run, one.dataset, one.method, ", ".join(one.words), _shown(mean))
            for one, mean in self.sets
        ]
        table = Table(("run", "dataset", "words from", "words", "rating"), rows, numbers=["rating"])
        table.add_section(("mean", "", name, "", _shown(mean)) for name, mean in self.means.items())
        table.notes.extend(self.notes)
        return table


def _shown(mean: float | None) -> str:
    return "" if mean is None else f"{mean:.2f}"


# -- writing a sheet ----------------------------------------------------------------------------


def word_sets(
    folders: Sequence[Path],
    words_file: Path | None = None,
    backbone: str | Backbone | None = None,
    reporter: Reporter = SILENT,
) -> list[WordSet]:
    """Returns three sets for each run with words; runs without words give the nearest words."""
    results = {folder: read_run(find_run(folder)) for folder in folders}
    plain = {folder: result for folder, result in results.items() if not result.words}
    pairs = [
        (folder, _plain_run(folder, result, plain))
        for folder, result in results.items()
        if result.words
    ]
    if not pairs:
        raise ConfigError("None of these runs has words; there is nothing to rate.")
    name_of = dict(zip(results, run_names(list(results)), strict=True))
    sets = []
    with reporter.task("Reading runs", len(pairs)) as advance:
        for folder, plain_folder in pairs:
            run = load_run(folder, backbone, words_file=words_file, cache=False)
            if run.pool is None:
                raise ConfigError(
                    f"The run {folder} chose from a list of words that is not the bundled one: "
                    "give --words-file."
                )
            tokens = run.learner.backbone.tokenize_words(run.pool.words)
            words = (
                run.words,
                nearest_words(read_baseline(run, plain_folder).learner, run.pool, len(run.words)),
                RandomWords(run.pool, tokens).draw(run.words, random.Random(0)),
            )
            names, more = run.classes[:MOST_CLASSES], len(run.classes) - MOST_CLASSES
            classes = ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
            sets += [
                WordSet(name_of[folder], method, run.result.data, classes, some)
                for method, some in zip(METHODS, words, strict=True)
            ]
            advance()
    return sets


def _plain_run(folder: Path, result: FitResult, plain: dict[Path, FitResult]) -> Path:
    """Returns the run without words that belongs to a run; the one of its seed, if several do."""
    if result.selection is None:
        raise ConfigError(
            f"The run {folder} cannot be rated, which compares chosen words with others: "
            f"{result.config.about_words}"
        )

    def trained(one: FitResult) -> tuple[object, ...]:
        return one.config.learner, one.trained_classes, one.backbone["weights_sha256"]

    found = [path for path, other in plain.items() if trained(other) == trained(result)]
    if not found:
        raise ConfigError(
            f"No run without words belongs to {folder}: fit its data with --words 0, the same "
            f"learner ({result.config.learner}) and backbone, and give that run as well."
        )
    return min(found, key=lambda path: plain[path].config.seed != result.config.seed)


def nearest_words(learner: Learner, pool: Pool, count: int) -> tuple[str, ...]:
    """Returns the words nearest to the soft vectors of a learner.

    First the nearest of each vector, those with the highest cosine before others, then the second
    nearest, and so on.
    """
    embeddings = learner.backbone.embed(learner.backbone.tokenize_words(pool.words))
    near = [nearest(vector, embeddings, pool, count) for vector in learner.soft.detach()]
    by_rank = [sorted(words, key=lambda n: -n.cosine) for words in zip(*near, strict=True)]
    return tuple(dict.fromkeys(n.word for words in by_rank for n in words))[:count]


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
    key = [{"id": id_of[row], **vars(one)} for row, one in zip(shown, sets, strict=True)]
    write_json(key_of(path), key)
    table = Table(COLUMNS, [(id_of[row], *row, "") for row in rows])
    write_text(path, "\ufeff" + table.to_csv())  # without the mark Excel takes it for Latin-1
    return len(rows)


def key_of(sheet: Path) -> Path:
    """Returns the file beside a sheet that tells whose words are in which row."""
    return sheet.with_suffix(KEY)


# -- reading filled sheets ----------------------------------------------------------------------


def read_sheets(sheets: Sequence[Path], key: Path | None = None) -> Ratings:
    """Returns what the sheets say; without `key`, the only key beside the first one is read."""
    if len({sheet.resolve() for sheet in sheets}) < len(sheets):
        raise ConfigError("A sheet is given twice; give the sheet of each rater once.")
    sets = _read_key(key or _find_key(sheets[0]))
    names = list(dict.fromkeys(name for name, _ in sets))
    values = np.full((len(sheets), len(names)), np.nan)
    notes = []
    for row, sheet in zip(values, sheets, strict=True):
        ratings = _read_sheet(sheet)
        if unknown := set(ratings) - set(names):
            raise DataError(f"{sheet} has the id {min(unknown)!r}, which is not in the key.")
        row[:] = [ratings.get(name, np.nan) for name in names]
        if missing := len(names) - len(ratings):
            notes.append(f"{sheet}: {missing} of {len(names)} ratings are missing.")
    means = [(one, _mean(values[:, names.index(name)])) for name, one in sets]
    alpha = krippendorff_alpha(values)
    agreement = (
        "no Krippendorff's alpha, which needs two raters of a set and ratings that differ"
        if alpha is None
        else f"Krippendorff's alpha (ordinal) {alpha:.3f}; 1 is perfect agreement, 0 is chance"
    )
    return Ratings(
        tuple(means),
        {method: _mean([m for one, m in means if one.method == method]) for method in METHODS},
        alpha,
        (f"{several(len(sheets), 'rater')}; {agreement}.", *notes),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    given = [value for value in values if value is not None and not np.isnan(value)]
    return float(np.mean(given)) if given else None


def _find_key(sheet: Path) -> Path:
    found = sorted(sheet.parent.glob(f"*{KEY}"))
    if len(found) != 1:
        raise DataError(
            f"There are {len(found)} keys (*{KEY}) beside {sheet}; give the one that "
            "was written with the sheet with --key."
        )
    return found[0]


def _read_key(path: Path) -> tuple[tuple[str, WordSet], ...]:
    text = read_text(path)
    try:
        sets = tuple((one.pop("id"), WordSet(**one)) for one in json.loads(text))
        texts = [text for name, one in sets for text in (name, one.run, one.dataset, *one.words)]
    except (ValueError, TypeError, AttributeError, LookupError):
        raise DataError(f"{path} is not the key of a sheet.") from None
    methods = {one.method in METHODS for _, one in sets}
    if methods != {True} or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{path} is not the key of a sheet.")
    return sets


def _read_sheet(path: Path) -> dict[str, float]:
    """Returns the ratings of a sheet by id, without rows that are not rated."""
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
        if rating and rating not in SCALE:
            raise DataError(f"{path}: the rating of {name} is {rating!r}; allowed are 1 to 5.")
        if rating and name in ratings:
            raise DataError(f"{path} rates the id {name} twice.")
        if rating:
            ratings[name] = float(rating)
    if not ratings:
        raise DataError(f"{path} has no rating; its column `rating` is empty.")
    return ratings


def krippendorff_alpha(ratings: NDArray[np.float64]) -> float | None:
    """Returns the ordinal alpha of ratings (raters, units), where NaN is a missing rating.

    alpha = 1 - observed / expected disagreement. Observed: over the pairs of ratings of one unit;
    expected: over the pairs of all ratings, whichever unit they are of. A unit that fewer than
    two people rated makes no pair and is left out. None if no unit is left, or all ratings are the
    same.
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
