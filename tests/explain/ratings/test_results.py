"""Means, differences and the CSV, against numbers worked out by hand."""

from __future__ import annotations

import csv
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from ipl.explain.ratings.raters import Raters
from ipl.explain.ratings.results import (
    RatedWord,
    difference,
    rated_list,
    ratings_of,
    read_ratings,
    results,
)
from ipl.explain.ratings.sheet import COLUMNS, sheet, write_sheet
from ipl.support.errors import DataError
from tests.helpers.ratings import rater, small_study, write_small_study

SAVED = Path(__file__).parents[1] / "saving" / "version-1"
ANNA = rater("Anna", {"sand": 5, "green": 4, "cold": 2, "paper": 1, "music": 1, "furry": 5})
BO = rater("Bo", {"sand": 3, "green": 4, "cold": 2, "paper": 2})


def test_means_are_over_words_of_the_means_over_raters() -> None:
    found = results("study", small_study(), [ANNA, BO])
    first = found.runs[0]
    chosen, plain, other = first.lists
    assert [word.word for word in chosen.words] == ["green", "sand"]
    assert chosen.mean == 4.0  # green 4, sand (5 + 3) / 2
    assert chosen.deviation == 0.0
    assert plain.mean == 3.0  # cold 2, sand 4: asked once, counted in both lists
    assert plain.deviation == pytest.approx(2**0.5)
    assert other.mean == 1.25  # paper 1.5, music 1: not (1 + 2 + 1) / 3
    assert (chosen.raters, chosen.ratings, other.raters, other.ratings) == (2, 4, 2, 3)
    assert other.words[1].ratings == (1, None)
    alone = found.runs[2].of("chosen")
    assert (alone.mean, alone.deviation, alone.raters) == (5.0, None, 1)
    assert found.runs[2].of("plain").mean is None
    assert found.together[0].mean == (4 + 4 + 2 + 5) / 4
    assert found.done == (("Anna", 6), ("Bo", 4))
    assert found.items == 9


def test_agreement_is_over_the_words_of_a_run() -> None:
    found = results("study", small_study(), [ANNA, BO])
    assert found.runs[0].agreement.raters == 2
    assert found.runs[0].agreement.words == 4  # all but music, which one has rated
    assert found.runs[1].agreement.words == 2
    value = found.agreement.ordinal.value
    assert value is not None
    assert 0 < value < 1
    assert found.agreement.interval.value is not None
    assert "fewer than two" in (found.runs[2].agreement.ordinal.why or "")
    alone = results("study", small_study(), [ANNA])
    assert alone.agreement.ordinal.value is None
    assert results("study", small_study(), []).together[0].mean is None


def _list(name: str, **means: float) -> object:
    words = [RatedWord(word, (), mean) for word, mean in means.items()]
    return rated_list(name, words)


def test_the_permutation_test_is_the_plain_loop() -> None:
    one, two = _list("chosen", a=4.5, b=3.0, c=5.0), _list("random", d=2.0, e=3.0, f=3.5)
    found = difference(one, two)  # type: ignore[arg-type]
    assert found is not None
    values, hits = [4.5, 3.0, 5.0, 2.0, 3.0, 3.5], []
    for order in permutations(values):
        apart = abs(np.mean(order[:3]) - np.mean(order[3:]))
        hits.append(apart >= found.value - 1e-9)
    assert found.value == pytest.approx(np.mean(values[:3]) - np.mean(values[3:]))
    assert found.p == pytest.approx(np.mean(hits))
    assert found.ways == 20


def test_words_of_both_lists_are_not_dealt_out() -> None:
    found = difference(_list("chosen", a=5, b=1), _list("plain", a=5, c=3))  # type: ignore[arg-type]
    assert found is not None
    assert (found.value, found.ways, found.p) == (-1.0, 2, 1.0)
    same = difference(_list("chosen", a=5), _list("plain", a=5))  # type: ignore[arg-type]
    assert same is not None
    assert (same.value, same.p) == (0.0, None)
    many = {f"w{number}": 1.0 for number in range(20)}
    more = {f"v{number}": 1.0 for number in range(20)}
    long = difference(_list("chosen", **many), _list("plain", **more))  # type: ignore[arg-type]
    assert long is not None
    assert long.p is None
    assert difference(_list("chosen"), _list("plain", a=5)) is None  # type: ignore[arg-type]


def test_the_sheet_has_a_row_per_rating_and_list() -> None:
    formula = rater('=HYPERLINK("x")', {"sand": 2})
    rows = list(csv.reader(sheet("study", small_study(), [ANNA, BO, formula]).splitlines()))
    assert tuple(rows[0]) == COLUMNS
    time = "2026-01-02T03:04:05.678+00:00"
    assert ["study", "run-1", "chosen", "sand", "Anna", "5", time] in rows
    assert ["study", "run-1", "plain", "sand", "Bo", "3", time] in rows
    assert ["study", "run-1", "plain", "sand", '\'=HYPERLINK("x")', "2", time] in rows
    # Run 1: three raters of sand in two lists, two of green, cold, paper, one of music; run 2:
    # two of cold and paper; run 3: one of furry.
    assert len(rows) - 1 == 6 + 2 + 2 + 2 + 1 + 4 + 1


def test_results_are_read_from_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    study = write_small_study(folder)
    raters = Raters(folder, study)
    raters.rate("Anna", "a1", 5)
    assert read_ratings(folder) == results("study", study, raters.every())
    path = write_sheet(folder, study, raters.every())
    assert path.read_text().count("\n") == 3
    with pytest.raises(DataError, match="does not hold the run .* it holds run-1, run-2, run-3"):
        ratings_of(SAVED, folder)
