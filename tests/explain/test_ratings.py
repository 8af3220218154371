"""Blind sheets, what filled ones say, and Krippendorff's alpha against its published example."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from ipl.backbone.backbone import Backbone
from ipl.explain.inputs import load_run
from ipl.explain.ratings import (
    WordSet,
    krippendorff_alpha,
    nearest_words,
    read_sheets,
    word_sets,
    write_sheet,
)
from ipl.support.errors import ConfigError, DataError

MakeRun = Callable[..., Path]
PETS = ("pets", "cat, dog")
SETS = [
    WordSet("one", "prompt", *PETS, ("furry", "adopt")),
    WordSet("one", "nearest", *PETS, ("enjoyment", "two")),
    WordSet("one", "random", *PETS, ("music", "paper")),
    WordSet("two", "prompt", *PETS, ("adopt", "furry")),  # to a rater the same as those of one
    WordSet("two", "nearest", *PETS, ("honey", "series")),
    WordSet("two", "random", *PETS, ("glass", "wall")),
]
GAP = float("nan")


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def filled(sheet: Path, name: str, ratings: Mapping[str, object], separator: str = ",") -> Path:
    """Returns a copy of a sheet with ratings by the first word of a row."""
    copy, rows = sheet.with_name(name), rows_of(sheet)
    with copy.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "rating": ratings.get(row["words"].split(",")[0], "")})
    return copy


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    write_sheet(tmp_path / "sheet.csv", SETS)
    return tmp_path / "sheet.csv"


def test_a_sheet_is_blind(sheet: Path, tmp_path: Path) -> None:
    rows = rows_of(sheet)
    assert list(rows[0]) == ["id", "dataset", "classes", "words", "rating"]
    shown = ["adopt, furry", "enjoyment, two", "glass, wall", "honey, series", "music, paper"]
    assert sorted(row["words"] for row in rows) == shown
    assert {(row["dataset"], row["classes"], row["rating"]) for row in rows} == {(*PETS, "")}
    assert len({row["id"] for row in rows}) == 5
    # Whose words they are changes neither their row nor its id.
    other = tmp_path / "other.csv"
    write_sheet(other, [replace(one, method="random") for one in reversed(SETS)])
    assert other.read_bytes() == sheet.read_bytes()


def test_a_text_is_no_formula(tmp_path: Path) -> None:
    write_sheet(tmp_path / "sheet.csv", [WordSet("r", "prompt", "=1+1", "@a, b", ("furry",))])
    assert list(rows_of(tmp_path / "sheet.csv")[0].values())[1:3] == ["'=1+1", "'@a, b"]


def test_means_and_missing_ratings(sheet: Path) -> None:
    anna = {"adopt": 5, "enjoyment": 2, "music": 1, "honey": 1, "glass": 1}
    bo = {"adopt": "4.0", "enjoyment": 3, "honey": " 2 "}
    paths = [filled(sheet, "anna.csv", anna), filled(sheet, "bo.csv", bo, ";")]
    ratings = read_sheets(paths)
    assert ratings.means == {"prompt": 4.5, "nearest": 2.0, "random": 1.0}
    assert ratings.alpha == krippendorff_alpha(np.array([[5, 2, 1.0], [4, 3, 2]]))
    assert ratings.notes[0].startswith("2 raters; Krippendorff's alpha (ordinal) ")
    assert ratings.notes[1:] == (f"{paths[1]}: 2 of 5 ratings are missing.",)
    alone = read_sheets(paths[1:])
    assert (alone.alpha, alone.means["random"]) == (None, None)


@pytest.mark.parametrize(
    ("rating", "named"),
    [(6, "'6'"), ("good", "'good'"), (3.5, "'3.5'"), ("", "has no rating")],
)
def test_a_rating_that_is_none(sheet: Path, rating: object, named: str) -> None:
    with pytest.raises(DataError, match=named):
        read_sheets([filled(sheet, "anna.csv", {"adopt": rating})])


def test_sheets_that_do_not_belong(sheet: Path, tmp_path: Path) -> None:
    anna = filled(sheet, "anna.csv", {"adopt": 5})
    with pytest.raises(ConfigError, match="given twice"):
        read_sheets([anna, tmp_path / "." / "anna.csv"])
    anna.write_text("id,rating\nzzzzzzzz,3\n")
    with pytest.raises(DataError, match="'zzzzzzzz', which is not in the key"):
        read_sheets([anna])
    anna.write_text("name,rating\nx,3\n")
    with pytest.raises(DataError, match="no columns id and rating"):
        read_sheets([anna])
    (tmp_path / "second.key.json").write_text("[]")
    with pytest.raises(DataError, match="2 keys"):
        read_sheets([anna])
    (tmp_path / "sheet.key.json").unlink()
    (tmp_path / "second.key.json").write_text("[1]")
    with pytest.raises(DataError, match="not the key"):
        read_sheets([anna])


def test_three_sets_of_a_run(make_run: MakeRun, pool_file: Path, pocket: Backbone) -> None:
    run, plain = make_run("coop", 2), make_run("coop", 0)
    sets = word_sets([plain, run], pool_file, pocket)
    assert [one.method for one in sets] == ["prompt", "nearest", "random"]
    assert [len(one.words) for one in sets] == [2, 2, 2]
    loaded = load_run(run, pocket, words_file=pool_file, cache=False)
    assert sets[0].words == loaded.words
    assert sets[0].classes == ", ".join(loaded.classes)
    assert not set(sets[2].words) & set(loaded.words)
    with pytest.raises(ConfigError, match="No run without words"):
        word_sets([run], pool_file, pocket)
    with pytest.raises(ConfigError, match="None of these runs has words that a search chose"):
        word_sets([plain], pool_file, pocket)
    with pytest.raises(ConfigError, match="--words-file"):
        word_sets([run, plain], None, pocket)


def test_nearest_words_are_those_of_the_whole_vocabulary(
    make_run: MakeRun, pocket: Backbone
) -> None:
    learner = load_run(make_run("coop", 0), pocket, cache=False).learner
    firsts = [first for (first,) in pocket.nearest_tokens(learner.soft.detach())]
    for count in (1, 2, 5, 10):
        found = nearest_words(learner, count)
        assert len(set(found)) == len(found) == count
        first = list(dict.fromkeys(firsts))[:count]
        assert list(found[: len(first)]) == first


# -- Krippendorff's alpha -----------------------------------------------------------------------


def test_alpha_of_the_published_example() -> None:
    # Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): 4 observers, 12 units.
    example = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, GAP, GAP, GAP],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, GAP, 3],
            [GAP, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, GAP],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, GAP],
        ]
    )
    assert krippendorff_alpha(example) == pytest.approx(0.815, abs=5e-4)


def test_alpha_is_the_plain_loop_over_pairs() -> None:
    table = np.random.default_rng(1).integers(1, 6, (3, 20)).astype(float)
    table[0, 3] = table[1, 5] = table[2, 5] = GAP
    units = [[v for v in unit if v == v] for unit in table.T]
    units = [unit for unit in units if len(unit) > 1]
    every = [v for unit in units for v in unit]

    def distance(a: float, b: float) -> float:
        low, high = sorted((a, b))
        between = sum(low <= v <= high for v in every)
        return (between - (every.count(a) + every.count(b)) / 2) ** 2 if a != b else 0.0

    inside = sum(
        2 * sum(distance(a, b) for a, b in combinations(unit, 2)) / (len(unit) - 1)
        for unit in units
    )
    across = 2 * sum(distance(a, b) for a, b in combinations(every, 2)) / (len(every) - 1)
    assert krippendorff_alpha(table) == pytest.approx(1 - inside / across, abs=1e-12)


@pytest.mark.parametrize("table", [[[1.0, 2, 3]], [[1.0, GAP], [GAP, 2]], [[3.0, 3]] * 3])
def test_where_alpha_is_undefined(table: list[list[float]]) -> None:
    assert krippendorff_alpha(np.array(table)) is None
