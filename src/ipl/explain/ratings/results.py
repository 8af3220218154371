"""What the ratings say: means per list, agreement, and how far chosen words are ahead."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.text import Text

from ipl.display.document import Block, Figure, Figures, Paragraph, Section
from ipl.display.formatting import listed, number, several, signed
from ipl.display.plots import Bar, bars
from ipl.display.table import Styled, Table, without_formula
from ipl.explain.ratings.agreement import Alpha, krippendorff_alpha
from ipl.explain.ratings.raters import SCALE, Rater, Raters
from ipl.explain.ratings.study import (
    CHOSEN,
    METHODS,
    PLAIN,
    RANDOM,
    StudiedRun,
    Study,
    fingerprint,
    read_study,
)
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import DataError
from ipl.support.files import write_text

MOST_PERMUTATIONS = 200_000  # an exact test over more of them takes too long
CSV = "ratings.csv"
CSV_COLUMNS = ("study", "run", "method", "word", "rater", "rating", "time")
BEST_RATING = float(max(SCALE))
TITLES = {
    CHOSEN: "chosen words",
    PLAIN: "nearest words of the learner without words",
    RANDOM: "random words, as frequent",
}
SUFFIXES = {CHOSEN: "", PLAIN: " (learner without words)", RANDOM: " (random)"}
TONES = {CHOSEN: 1, PLAIN: 2, RANDOM: 0}
ALPHA_MEANING = (
    "Alpha says whether raters agree: 1 is perfect agreement, 0 what chance would give; from 0.8 "
    "on ratings are usually called reliable, below 0.667 not."
)


@dataclass(frozen=True)
class RatedWord:
    """A word and its ratings, one entry for each rater of the study; None if not rated."""

    word: str
    ratings: tuple[int | None, ...]
    mean: float | None  # over those who rated it


@dataclass(frozen=True)
class RatedList:
    """The words of one method; mean and deviation are over the means of its words."""

    method: str
    words: tuple[RatedWord, ...]
    mean: float | None
    deviation: float | None  # n - 1 in the denominator; None for fewer than two words
    raters: int
    ratings: int

    @property
    def rated(self) -> int:
        """Returns how many of its words someone has rated."""
        return sum(word.mean is not None for word in self.words)

    @property
    def complete(self) -> bool:
        """Returns whether every word of it has been rated."""
        return self.rated == len(self.words)


@dataclass(frozen=True)
class Difference:
    """How far the mean of the chosen words is above that of another list.

    `p` is the share of all ways to distribute the words over the two lists that set their means at
    least as far apart, in either direction; None if there is nothing to distribute, and while a
    word of the two lists is not rated.
    """

    method: str
    value: float
    p: float | None
    ways: int
    complete: bool  # every word of both lists is rated


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha over the words that at least two people rated."""

    ordinal: Alpha
    interval: Alpha
    raters: int
    words: int  # that at least two people rated


@dataclass(frozen=True)
class RunRating:
    """One run: its lists, the agreement about its words, and the differences of its means."""

    name: str
    fingerprint: str
    lists: tuple[RatedList, ...]
    agreement: Agreement
    differences: tuple[Difference, ...]

    def of(self, method: str) -> RatedList:
        """Returns the list of a method."""
        return next(rated for rated in self.lists if rated.method == method)


@dataclass(frozen=True)
class RatingResults:
    """A whole study: its runs, all of them together, and how much each rater has done."""

    study: str
    runs: tuple[RunRating, ...]
    together: tuple[RatedList, ...]
    agreement: Agreement
    items: int
    done: tuple[tuple[str, int], ...]  # of each rater: name, items answered


def read_ratings(folder: Path) -> RatingResults:
    """Returns the results of the study in a folder so far."""
    study = read_study(folder)
    return summarize_ratings(folder.resolve().name, study, Raters(folder, study).every())


def ratings_of(run: Path, folder: Path) -> RunRating:
    """Returns the ratings of one saved run in a study; raises DataError if there are none."""
    results, run_fingerprint = read_ratings(folder), fingerprint(read_run(find_run(run)))
    rating = next((r for r in results.runs if r.fingerprint == run_fingerprint), None)
    if rating is None:
        names = ", ".join(r.name for r in results.runs)
        raise DataError(
            f"The study {folder} does not contain the run {run} as it is now; it contains {names}."
        )
    if not any(rated.ratings for rated in rating.lists):
        raise DataError(f"No one has rated words of {run} in the study {folder} yet.")
    return rating


def summarize_ratings(name: str, study: Study, raters: Sequence[Rater]) -> RatingResults:
    """Returns the results of a study with the answers of these raters."""
    runs = tuple(_run_rating(study, run, raters) for run in study.runs)
    together = tuple(
        rated_list(method, [word for run in runs for word in run.of(method).words])
        for method in METHODS
    )
    return RatingResults(
        study=name,
        runs=runs,
        together=together,
        agreement=agreement(raters, study.items),
        items=len(study.items),
        done=tuple((rater.name, len(rater.answers)) for rater in raters),
    )


def rated_list(method: str, words: Sequence[RatedWord]) -> RatedList:
    """Returns the mean and deviation of some words; words without a rating are left out."""
    means = [word.mean for word in words if word.mean is not None]
    by_rater = zip(*(word.ratings for word in words), strict=True)
    return RatedList(
        method=method,
        words=tuple(words),
        mean=float(np.mean(means)) if means else None,
        deviation=float(np.std(means, ddof=1)) if len(means) > 1 else None,
        raters=sum(any(rating is not None for rating in ratings) for ratings in by_rater),
        ratings=sum(rating is not None for word in words for rating in word.ratings),
    )


def agreement(raters: Sequence[Rater], items: Iterable[str]) -> Agreement:
    """Returns how far raters agree about these items."""
    names = sorted(items)
    table = np.full((len(raters), len(names)), np.nan)  # (raters, items)
    for row, rater in zip(table, raters, strict=True):
        for column, name in enumerate(names):
            if name in rater.answers:
                row[column] = rater.answers[name].rating
    given = ~np.isnan(table)
    return Agreement(
        ordinal=krippendorff_alpha(table, "ordinal"),
        interval=krippendorff_alpha(table, "interval"),
        raters=int(given.any(axis=1).sum()),
        words=int((given.sum(axis=0) >= 2).sum()),
    )


def difference(chosen: RatedList, other: RatedList) -> Difference | None:
    """Returns how far the first list is ahead, with an exact permutation test over words.

    Words that are in both lists stay in both: only the others are distributed. None without
    ratings.
    """
    if chosen.mean is None or other.mean is None:
        return None
    chosen_means = {word.word: word.mean for word in chosen.words if word.mean is not None}
    other_means = {word.word: word.mean for word in other.words if word.mean is not None}
    first = [mean for word, mean in chosen_means.items() if word not in other_means]
    second = [mean for word, mean in other_means.items() if word not in chosen_means]
    value, means = chosen.mean - other.mean, np.array(first + second)
    ways = math.comb(len(means), len(first))
    complete = chosen.complete and other.complete
    if not first or not second or ways > MOST_PERMUTATIONS or not complete:
        return Difference(other.method, value, None, ways, complete)
    indices = np.array(list(combinations(range(len(means)), len(first))))  # (ways, words)
    sums = means[indices].sum(axis=1)
    distances = np.abs(sums / len(first) - (means.sum() - sums) / len(second))
    observed = abs(float(np.mean(first) - np.mean(second)))
    p = float((distances >= observed - 1e-9).mean())
    return Difference(other.method, value, p, ways, True)


def _run_rating(study: Study, run: StudiedRun, raters: Sequence[Rater]) -> RunRating:
    task = study.tasks[run.task]
    lists = {
        method: rated_list(
            method, [_rated_word(word, task.name_of(word), raters) for word in run.lists[method]]
        )
        for method in METHODS
    }
    items = {task.name_of(word) for words in run.lists.values() for word in words}
    differences = [difference(lists[CHOSEN], lists[other]) for other in (PLAIN, RANDOM)]
    return RunRating(
        name=run.name,
        fingerprint=run.fingerprint,
        lists=tuple(lists.values()),
        agreement=agreement(raters, items),
        differences=tuple(d for d in differences if d is not None),
    )


def _rated_word(word: str, item: str, raters: Sequence[Rater]) -> RatedWord:
    answers = [rater.answers.get(item) for rater in raters]
    ratings = [answer.rating for answer in answers if answer is not None]
    mean = sum(ratings) / len(ratings) if ratings else None
    return RatedWord(word, tuple(a.rating if a else None for a in answers), mean)


# -- as a section of a report -------------------------------------------------------------------


def ratings_section(rating: RunRating, gains: Mapping[str, float]) -> Section:
    """Returns the ratings of a run's words and of the words they are compared with.

    `gains` are the gains of the run's words when they were chosen.
    """
    count = max(rated.raters for rated in rating.lists)
    alpha = agreement_text(rating.agreement)
    blocks: list[Block] = [
        Paragraph(
            f"{several(count, 'person', 'people')} rated from 1 (not at all) to 5 (very) how "
            "relevant words are to images of this task, without being told where a word comes "
            "from: from this prompt, from near the vectors of the learner without words, or from "
            "a draw of random words that are about as frequent."
        ),
        Figures((_list_means(rating.lists), _word_means(rating.lists, gains))),
        Paragraph(f"{_capitalized(alpha)} {ALPHA_MEANING}"),
        *(Paragraph(_capitalized(difference_text(d))) for d in rating.differences),
    ]
    summary = f"{several(count, 'person', 'people')} rated the words."
    return Section("people", "What people say", tuple(blocks), summary)


def _capitalized(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _list_means(lists: tuple[RatedList, ...]) -> Figure:
    rows = [
        [TITLES[r.method], mean_text(r), rated_text(r), str(r.raters), str(r.ratings)]
        for r in lists
    ]
    mean_bars = [
        Bar(TITLES[r.method], r.mean, number(r.mean, 2), TONES[r.method])
        for r in lists
        if r.mean is not None
    ]
    title = "Mean rating of each list, from 1 to 5"
    columns = ("list", "mean ± deviation over words", "words rated", "raters", "ratings")
    return _rating_figure(title, mean_bars, columns, rows)


def _word_means(lists: tuple[RatedList, ...], gains: Mapping[str, float]) -> Figure:
    words = [(rated.method, word) for rated in lists for word in rated.words]
    mean_bars = [
        Bar(word.word + SUFFIXES[method], word.mean, number(word.mean, 2), TONES[method])
        for method, word in words
        if word.mean is not None
    ]
    rows = []
    for method, word in words:
        mean = "" if word.mean is None else number(word.mean, 2)
        ratings = ", ".join(str(rating) for rating in word.ratings if rating is not None)
        gain = gains.get(word.word) if method == CHOSEN else None
        gain_text = "" if gain is None else signed(gain)
        rows.append([word.word, TITLES[method], mean, ratings, gain_text])
    title = "Mean rating of each word; those of this prompt first"
    columns = ("word", "list", "mean", "ratings", "gain when chosen")
    return _rating_figure(title, mean_bars, columns, rows)


def _rating_figure(
    title: str, mean_bars: list[Bar], columns: Sequence[str], rows: list[list[str]]
) -> Figure:
    values = ", ".join(f"{bar.label} {bar.shown}" for bar in mean_bars)
    svg = bars(mean_bars, f"{title}: {values}.", BEST_RATING)
    return Figure(title, svg, Table(columns, rows, caption=title))


def rated_text(rated: RatedList) -> str:
    """Returns "2 of 3", how many words of a list are rated."""
    return f"{rated.rated} of {len(rated.words)}"


def mean_text(rated: RatedList) -> str:
    """Returns "3.67 ± 0.58", the mean and deviation over words."""
    if rated.mean is None:
        return ""
    return number(rated.mean, 2) + ("" if rated.deviation is None else f" ± {rated.deviation:.2f}")


def agreement_text(agreement: Agreement) -> str:
    """Returns alpha with what it is computed from, or why there is none."""
    value = agreement.ordinal.value
    if value is None:
        return f"there is no Krippendorff's alpha: {agreement.ordinal.why}."
    basis = f"{several(agreement.raters, 'rater')}, {several(agreement.words, 'word')}"
    return (
        f"Krippendorff's alpha (ordinal) is {number(value, 3)} over {basis} rated by two or more."
    )


def difference_text(difference: Difference) -> str:
    """Returns how far the chosen words are above others, and how often chance does that."""
    text = f"chosen words less {TITLES[difference.method]}: {signed(difference.value, 2)}"
    if not difference.complete:
        return f"{text} so far; not every word of the two lists is rated yet, so there is no test."
    if difference.p is None:
        return f"{text}."
    return (
        f"{text}; of {several(difference.ways, 'way')} to deal these words out to two lists, "
        f"{100 * difference.p:.0f} % set the means at least as far apart "
        f"(p = {difference.p:.3f})."
    )


# -- in a terminal, as JSON and as CSV ----------------------------------------------------------


def ratings_report(results: RatingResults) -> Group:
    """Returns means per run and list, agreement and differences, for a terminal."""
    if not results.done:
        return Group(Text("No one has rated yet."))
    progress = [f"{name} {done} of {results.items}" for name, done in results.done]
    parts: list[Any] = [_results_table(results).to_terminal(), Text("")]
    parts.append(Text(f"Words rated: {listed(progress)}."))
    parts += [Text(f"{run.name}: {agreement_text(run.agreement)}") for run in results.runs]
    if len(results.runs) > 1:
        parts.append(Text(f"All runs: {agreement_text(results.agreement)}"))
    parts.append(Text(ALPHA_MEANING))
    for run in results.runs:
        parts += [Text(f"{run.name}: {difference_text(d)}") for d in run.differences]
    return Group(*parts)


def _results_table(results: RatingResults) -> Table:
    numbers = ["mean rating", "words rated", "raters", "ratings"]
    groups = [(run.name, run.lists) for run in results.runs]
    if len(results.runs) > 1:
        groups.append(("all runs", results.together))
    rows = [
        [
            Styled(name, "bold"),
            TITLES[rated.method],
            mean_text(rated),
            *(rated_text(rated), str(rated.raters), str(rated.ratings)),
        ]
        for name, lists in groups
        for rated in lists
    ]
    return Table(["run", "words", *numbers], rows, numbers=numbers)


def ratings_values(results: RatingResults) -> dict[str, Any]:
    """Returns the results as plain values for JSON, with the raters' names."""
    done = [{"rater": name, "items": items} for name, items in results.done]
    return {"scale": [SCALE[0], SCALE[-1]], **asdict(results), "done": done}


def write_ratings_csv(folder: Path, study: Study, raters: Sequence[Rater]) -> Path:
    """Writes ratings.csv into a study's folder; returns its path."""
    path = folder / CSV
    write_text(path, ratings_csv(folder.resolve().name, study, raters))
    return path


def ratings_csv(name: str, study: Study, raters: Sequence[Rater]) -> str:
    """Returns the ratings, a row for each; a word that is in two lists has a row in each."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for run in study.runs:
        task = study.tasks[run.task]
        for method, words in run.lists.items():
            for word in words:
                item = task.name_of(word)
                for rater in raters:
                    if (answer := rater.answers.get(item)) is not None:
                        texts = (name, run.name, method, word, rater.name)
                        row = [*map(without_formula, texts), answer.rating, answer.time]
                        writer.writerow(row)
    return file.getvalue()
