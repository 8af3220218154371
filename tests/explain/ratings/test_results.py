"""Means, differences and the CSV against numbers worked out by hand; how people read them."""

from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ipl.display.document import Document, Section
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.ratings.raters import Raters
from ipl.explain.ratings.results import (
    CSV_COLUMNS,
    RatedWord,
    RatingResults,
    difference,
    rated_list,
    ratings_csv,
    ratings_of,
    ratings_report,
    ratings_section,
    ratings_values,
    read_ratings,
    summarize_ratings,
    write_ratings_csv,
)
from ipl.support.errors import DataError
from tests.helpers.page_check import check_page
from tests.helpers.ratings import rater, small_study, write_small_study

SAVED = Path(__file__).parents[2] / "saving" / "version-1"
ANNA = rater("Anna", {"sand": 5, "green": 4, "cold": 2, "paper": 1, "music": 1, "furry": 5})
BO = rater("Bo", {"sand": 3, "green": 4, "cold": 2, "paper": 2})


def test_means_are_over_words_of_the_means_over_raters() -> None:
    found = summarize_ratings("study", small_study(), [ANNA, BO])
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
    found = summarize_ratings("study", small_study(), [ANNA, BO])
    assert found.runs[0].agreement.raters == 2
    assert found.runs[0].agreement.words == 4  # all but music, which one has rated
    assert found.runs[1].agreement.words == 2
    value = found.agreement.ordinal.value
    assert value is not None
    assert 0 < value < 1
    assert found.agreement.interval.value is not None
    assert "fewer than two" in (found.runs[2].agreement.ordinal.why or "")
    alone = summarize_ratings("study", small_study(), [ANNA])
    assert alone.agreement.ordinal.value is None
    assert summarize_ratings("study", small_study(), []).together[0].mean is None


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


def test_the_csv_has_a_row_per_rating_and_list() -> None:
    formula = rater('=HYPERLINK("x")', {"sand": 2})
    rows = list(csv.reader(ratings_csv("study", small_study(), [ANNA, BO, formula]).splitlines()))
    assert tuple(rows[0]) == CSV_COLUMNS
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
    assert read_ratings(folder) == summarize_ratings("study", study, raters.every())
    path = write_ratings_csv(folder, study, raters.every())
    assert path.read_text().count("\n") == 3
    with pytest.raises(
        DataError, match="does not contain the run .* it contains run-1, run-2, run-3"
    ):
        ratings_of(SAVED, folder)


# -- how people read them ---------------------------------------------------------------------

TYPED = rater("<b>Bo", {"sand": 3, "green": 4, "cold": 2, "paper": 2})
RESULTS = summarize_ratings("study", small_study(), [ANNA, TYPED])


def _document(section: Section) -> Document:
    return Document("t", "s", (), (), (), (section,), "f")


def _printed(results: RatingResults) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(ratings_report(results))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_part_of_the_report() -> None:
    document = _document(ratings_section(RESULTS.runs[0], {"green": 0.5, "sand": 0.25}))
    page = check_page(as_html(document))
    text = "".join(page.text)
    assert "2 people rated from 1 (not at all) to 5 (very)" in text
    assert "Krippendorff's alpha (ordinal) is" in text
    assert "Chosen words less random words, as frequent: +2.75; of 6 ways" in text
    assert "33 % set the means at least as far apart (p = 0.333)." in text
    assert "Bo" not in text
    assert len(page.of("svg")) == 2
    assert "chosen words 4.00" in (page.of("svg")[0]["aria-label"] or "")
    markdown = as_markdown(document)
    assert "| chosen words | 4.00 ± 0.00 | 2 of 2 | 2 | 4 |" in markdown
    assert "| green | chosen words | 4.00 | 4, 4 | +0.5000 |" in markdown
    assert "| music | random words, as frequent | 1.00 | 1 |  |" in markdown


def test_a_run_that_one_person_rated_in_part() -> None:
    text = as_markdown(_document(ratings_section(RESULTS.runs[2], {})))
    assert "1 person rated" in text
    assert "There is no Krippendorff's alpha: fewer than two people have rated." in text
    assert "| chosen words | 5.00 | 1 of 1 | 1 | 1 |" in text
    assert "| metal | nearest words of the learner without words |  |  |  |" in text


def test_a_table_in_the_terminal() -> None:
    text = _printed(RESULTS)
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "run-1 chosen words 4.00 ± 0.00 2 of 2 2 4" in rows
    assert "all runs chosen words 3.75 ± 1.26 4 of 4 2 7" in rows
    assert "Words rated: Anna 6 of 9 and <b>Bo 4 of 9." in rows
    assert "run-3: there is no Krippendorff's alpha: fewer than two people have rated." in rows
    unrated = summarize_ratings("study", small_study(), [])
    assert _printed(unrated).strip() == "No one has rated yet."


def test_lists_that_are_rated_in_part_have_no_test() -> None:
    part = rater("Cy", {"sand": 5, "paper": 1, "music": 2})
    text = _printed(summarize_ratings("study", small_study(), [part]))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "run-1 chosen words 5.00 1 of 2 1 1" in rows
    assert "run-1 random words, as frequent 1.50 ± 0.71 2 of 2 1 2" in rows
    assert (
        "run-1: chosen words less random words, as frequent: +3.50 so far; not every word of the "
        "two lists is rated yet, so there is no test." in rows
    )
    assert "p =" not in text


def test_plain_values() -> None:
    values = json.loads(json.dumps(ratings_values(RESULTS), allow_nan=False))
    assert values["scale"] == [1, 5]
    assert values["runs"][0]["lists"][0]["mean"] == 4.0
    assert values["runs"][0]["agreement"]["interval"]["value"] is not None
    assert values["runs"][2]["agreement"]["ordinal"]["why"] == "fewer than two people have rated"
    assert values["done"] == [{"rater": "Anna", "items": 6}, {"rater": "<b>Bo", "items": 4}]
