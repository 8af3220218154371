"""What the ratings come to: means per list, agreement, and how far chosen words are ahead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ipl.explain.ratings.agreement import Alpha, krippendorff_alpha
from ipl.explain.ratings.raters import Rater, Raters
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
from ipl.saving.sharing import find_run
from ipl.support.errors import DataError

MOST_WAYS = 200_000  # of dealing words out; an exact test beyond that takes too long


@dataclass(frozen=True)
class RatedWord:
    """A word and its ratings, a place for each rater of the study; None where there is none."""

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

    `p` is the share of all ways to deal the words out to the two lists that set their means at
    least as far apart, in either direction; None if there is nothing to deal out, and while a word
    of the two lists is not rated.
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
        return next(one for one in self.lists if one.method == method)


@dataclass(frozen=True)
class RatingResults:
    """A whole study: its runs, all of them together, and how far each rater has come."""

    study: str
    runs: tuple[RunRating, ...]
    together: tuple[RatedList, ...]
    agreement: Agreement
    items: int
    done: tuple[tuple[str, int], ...]  # of each rater: name, items answered


def read_ratings(folder: Path) -> RatingResults:
    """Returns what the ratings in a study's folder come to so far."""
    study = read_study(folder)
    return results(folder.resolve().name, study, Raters(folder, study).every())


def ratings_of(run: Path, folder: Path) -> RunRating:
    """Returns what a study says of one saved run; raises DataError if it says nothing."""
    found, mark = read_ratings(folder), fingerprint(read_run(find_run(run)))
    rated = next((one for one in found.runs if one.fingerprint == mark), None)
    if rated is None:
        held = ", ".join(one.name for one in found.runs)
        raise DataError(
            f"The study {folder} does not hold the run {run} as it is now; it holds {held}."
        )
    if not any(one.ratings for one in rated.lists):
        raise DataError(f"No one has rated words of {run} in the study {folder} yet.")
    return rated


def results(name: str, study: Study, raters: Sequence[Rater]) -> RatingResults:
    """Returns what these raters' answers come to."""
    runs = tuple(_run(study, run, raters) for run in study.runs)
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
    """Returns the mean and deviation of some words, those without a rating left out."""
    means = [word.mean for word in words if word.mean is not None]
    places = zip(*(word.ratings for word in words), strict=True)  # of one rater each
    return RatedList(
        method=method,
        words=tuple(words),
        mean=float(np.mean(means)) if means else None,
        deviation=float(np.std(means, ddof=1)) if len(means) > 1 else None,
        raters=sum(any(rating is not None for rating in place) for place in places),
        ratings=sum(rating is not None for word in words for rating in word.ratings),
    )


def agreement(raters: Sequence[Rater], items: Iterable[str]) -> Agreement:
    """Returns how far raters agree about these items."""
    names = sorted(items)
    table = np.full((len(raters), len(names)), np.nan)  # (raters, items)
    for row, rater in zip(table, raters, strict=True):
        for place, name in enumerate(names):
            if name in rater.answers:
                row[place] = rater.answers[name].rating
    given = ~np.isnan(table)
    return Agreement(
        ordinal=krippendorff_alpha(table, "ordinal"),
        interval=krippendorff_alpha(table, "interval"),
        raters=int(given.any(axis=1).sum()),
        words=int((given.sum(axis=0) >= 2).sum()),
    )


def difference(one: RatedList, other: RatedList) -> Difference | None:
    """Returns how far the first list is ahead, with an exact permutation test over words.

    Words that are in both lists stay in both: only the others are dealt out. None without ratings.
    """
    if one.mean is None or other.mean is None:
        return None
    mine = {word.word: word.mean for word in one.words if word.mean is not None}
    theirs = {word.word: word.mean for word in other.words if word.mean is not None}
    first = [mean for word, mean in mine.items() if word not in theirs]
    second = [mean for word, mean in theirs.items() if word not in mine]
    value, every = one.mean - other.mean, np.array(first + second)
    ways = math.comb(len(every), len(first))
    complete = one.complete and other.complete
    if not first or not second or ways > MOST_WAYS or not complete:
        return Difference(other.method, value, None, ways, complete)
    dealt = np.array(list(combinations(range(len(every)), len(first))))  # (ways, words)
    sums = every[dealt].sum(axis=1)
    apart = np.abs(sums / len(first) - (every.sum() - sums) / len(second))
    seen = abs(float(np.mean(first) - np.mean(second)))
    return Difference(other.method, value, float((apart >= seen - 1e-9).mean()), ways, True)


def _run(study: Study, run: StudiedRun, raters: Sequence[Rater]) -> RunRating:
    task = study.tasks[run.task]
    lists = {
        method: rated_list(
            method, [_word(word, task.name_of(word), raters) for word in run.lists[method]]
        )
        for method in METHODS
    }
    items = {task.name_of(word) for words in run.lists.values() for word in words}
    found = [difference(lists[CHOSEN], lists[other]) for other in (PLAIN, RANDOM)]
    return RunRating(
        name=run.name,
        fingerprint=run.fingerprint,
        lists=tuple(lists.values()),
        agreement=agreement(raters, items),
        differences=tuple(one for one in found if one is not None),
    )


def _word(word: str, item: str, raters: Sequence[Rater]) -> RatedWord:
    answers = [rater.answers.get(item) for rater in raters]
    given = [answer.rating for answer in answers if answer is not None]
    mean = sum(given) / len(given) if given else None
    return RatedWord(word, tuple(a.rating if a else None for a in answers), mean)
