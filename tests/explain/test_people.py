"""Ratings as people read them: a part of a page, a table in a terminal, plain values."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from ipl.display.document import Document, Section
from ipl.display.html import as_html
from ipl.display.markdown import as_markdown
from ipl.explain.ratings.results import RatingResults, results
from ipl.explain.ratings_section import people_section
from ipl.explain.ratings_table import ratings_report, ratings_values
from tests.helpers.page_check import check_page
from tests.helpers.ratings import rater, small_study

ANNA = rater("Anna", {"sand": 5, "green": 4, "cold": 2, "paper": 1, "music": 1, "furry": 5})
BO = rater("<b>Bo", {"sand": 3, "green": 4, "cold": 2, "paper": 2})
FOUND = results("study", small_study(), [ANNA, BO])


def _document(section: Section) -> Document:
    return Document("t", "s", (), (), (), (section,), "f")


def _printed(found: RatingResults) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(ratings_report(found))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_part_of_the_report() -> None:
    document = _document(people_section(FOUND.runs[0], {"green": 0.5, "sand": 0.25}))
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
    text = as_markdown(_document(people_section(FOUND.runs[2], {})))
    assert "1 person rated" in text
    assert "There is no Krippendorff's alpha: fewer than two people have rated." in text
    assert "| chosen words | 5.00 | 1 of 1 | 1 | 1 |" in text
    assert "| metal | nearest words of the learner without words |  |  |  |" in text


def test_a_table_in_the_terminal() -> None:
    text = _printed(FOUND)
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "run-1 chosen words 4.00 ± 0.00 2 of 2 2 4" in rows
    assert "all runs chosen words 3.75 ± 1.26 4 of 4 2 7" in rows
    assert "Words rated: Anna 6 of 9 and <b>Bo 4 of 9." in rows
    assert "run-3: there is no Krippendorff's alpha: fewer than two people have rated." in rows
    assert _printed(results("study", small_study(), [])).strip() == "No one has rated yet."


def test_lists_that_are_rated_in_part_have_no_test() -> None:
    part = rater("Cy", {"sand": 5, "paper": 1, "music": 2})
    text = _printed(results("study", small_study(), [part]))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "run-1 chosen words 5.00 1 of 2 1 1" in rows
    assert "run-1 random words, as frequent 1.50 ± 0.71 2 of 2 1 2" in rows
    assert (
        "run-1: chosen words less random words, as frequent: +3.50 so far; not every word of the "
        "two lists is rated yet, so there is no test." in rows
    )
    assert "p =" not in text


def test_plain_values() -> None:
    values = json.loads(json.dumps(ratings_values(FOUND), allow_nan=False))
    assert values["scale"] == [1, 5]
    assert values["runs"][0]["lists"][0]["mean"] == 4.0
    assert values["runs"][0]["agreement"]["interval"]["value"] is not None
    assert values["runs"][2]["agreement"]["ordinal"]["why"] == "fewer than two people have rated"
    assert values["done"] == [{"rater": "Anna", "items": 6}, {"rater": "<b>Bo", "items": 4}]
