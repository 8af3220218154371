"""The rating page as people use it: by keyboard and by mouse, reloaded, gone back, served again."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from ipl.apps.hosts import address_of, listen
from ipl.apps.rate.app import create_rating_app
from ipl.explain.ratings.raters import Raters
from ipl.explain.ratings.results import read_ratings, write_ratings_csv
from ipl.explain.ratings.study import Study, read_study
from tests.helpers.ratings import write_small_study

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
WORDS = 9
MEANINGS = ("not at all", "hardly", "somewhat", "quite", "very")
Open = Callable[..., "Page"]


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[str]:
    """Yields the address of the study's page; a server of its own each time."""
    study = read_study(folder)
    with listen("127.0.0.1", port) as bound:
        app = create_rating_app(folder, study, Raters(folder, study), frozenset({"127.0.0.1"}))
        bound.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=lambda: server.run([bound]))
        thread.start()
        try:
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small_study(tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def study(folder: Path) -> Study:
    return read_study(folder)


def answers(folder: Path, name: str) -> dict[str, int]:
    """Returns what is on disk: word -> rating."""
    study = read_study(folder)
    words = {item: word for task in study.tasks for item, word in task.items.items()}
    return {words[item]: rating for item, rating in Raters(folder, study).answers(name).items()}


def words_on(page: Page) -> list[str]:
    """Returns the words on the screen."""
    return page.locator("legend").all_inner_texts()


def saved(page: Page) -> None:
    """Waits until the server has what was answered."""
    page.get_by_text("Saved", exact=True).wait_for()


def choice(page: Page, word: str, rating: int) -> Locator:
    """Returns the button that rates a word, found as a screen reader finds it."""
    name = f"{rating} {MEANINGS[rating - 1]}"
    return page.get_by_role("group", name=word).get_by_role("radio", name=name, exact=True)


def enter(page: Page, name: str) -> None:
    page.get_by_label("Your name").fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="List 1 of").wait_for()


def rate_on(page: Page, number: int, by_mouse: bool = False) -> dict[str, int]:
    """Rates the words on the screen, the first with `number`, and goes to the next; returns it."""
    given, title = {}, page.locator("h1:visible").inner_text()
    for index, word in enumerate(words_on(page)):
        given[word] = 1 + (number + index) % 5
        if by_mouse:
            choice(page, word, given[word]).click()
        else:
            page.keyboard.press(str(given[word]))
    saved(page)
    if by_mouse:
        page.locator("#next").click()
    else:
        page.keyboard.press("Enter")  # the button has the focus by now
    now = "document.querySelector('section:not([hidden]) h1').textContent"
    page.wait_for_function(f"before => {now} !== before", arg=title)
    return given


def test_two_people_rate_at_once(open_page: Open, folder: Path, study: Study) -> None:
    with serving(folder) as address:
        anna, bo = open_page(address), open_page(address, color_scheme="dark")
        enter(anna, "Anna")
        assert anna.get_by_text("press the keys").is_visible()
        enter(bo, "<b>Bo</b>")
        assert bo.locator("#who-rates").inner_text() == "<b>Bo</b>"
        given: dict[str, dict[str, int]] = {"Anna": {}, "<b>Bo</b>": {}}
        for number in range(3):
            given["Anna"] |= rate_on(anna, number)
            given["<b>Bo</b>"] |= rate_on(bo, 2 * number, by_mouse=True)
        assert answers(folder, "Anna") == given["Anna"]
        # A reload in the middle of a screen changes nothing.
        before, title = words_on(anna), anna.locator("h1:visible").inner_text()
        anna.keyboard.press("5")
        saved(anna)
        anna.reload()
        anna.get_by_role("heading", name=title).wait_for()
        assert words_on(anna) == before
        assert choice(anna, before[0], 5).is_checked()
        # Back, and another answer.
        anna.get_by_role("button", name="Back").click()
        anna.get_by_role("heading", name="List 3 of").wait_for()
        word = words_on(anna)[0]
        changed = 5 if given["Anna"][word] != 5 else 1
        choice(anna, word, changed).click()
        saved(anna)
        given["Anna"][word] = changed
        anna.get_by_role("button", name="Next").click()
        anna.get_by_role("heading", name=title).wait_for()
        while not anna.locator("#end").is_visible():
            given["Anna"] |= rate_on(anna, 1, by_mouse=True)
        port = int(address.rpartition(":")[2])
    # Served again, everything is still there; raters continue where they stopped.
    with serving(folder, port):
        left = bo.locator("h1:visible").inner_text()
        bo.reload()
        bo.get_by_role("heading", name=left).wait_for()
        while not bo.locator("#end").is_visible():
            given["<b>Bo</b>"] |= rate_on(bo, 3)
        assert "all 9 words are rated and saved" in bo.locator("#end-text").inner_text()
        anna.reload()
        anna.get_by_role("heading", name="Thank you").wait_for()
    for name, expected in given.items():
        assert len(expected) == WORDS
        assert answers(folder, name) == expected
    _check_numbers(folder, study, given)


def _check_numbers(folder: Path, study: Study, given: dict[str, dict[str, int]]) -> None:
    ratings = read_ratings(folder)
    for run, rated in zip(study.runs, ratings.runs, strict=True):
        for one in rated.lists:
            clicked = [[who[word] for who in given.values()] for word in run.lists[one.method]]
            assert one.mean == pytest.approx(sum(map(sum, clicked)) / sum(map(len, clicked)))
    raters = Raters(folder, study).every()
    with write_ratings_csv(folder, study, raters).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * sum(len(w) for run in study.runs for w in run.lists.values())
    for row in rows:
        assert given[row["rater"]][row["word"]] == int(row["rating"])


def test_the_page_betrays_nothing_and_fits_a_phone(open_page: Open, folder: Path) -> None:
    with serving(folder) as address:
        answered: list[Any] = []
        phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
        page = open_page("about:blank", color_scheme="dark", **phone)
        page.on("response", lambda response: answered.append(response))
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        enter(page, "Cleo")
        page.wait_for_load_state("networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390
        assert not page.get_by_text("press the keys").is_visible()
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(20, 24, 28)"
        texts = [page.content()]
        texts += [r.text() for r in answered if "image" not in r.headers["content-type"]]
        assert len(texts) >= 5
        for word in ("chosen", "plain", "random", "nearest", "run-1"):
            assert not any(word in text.lower() for text in texts)
        sizes = page.evaluate(
            "[...document.querySelectorAll('.thumbs img')].map((i) => i.naturalWidth)"
        )
        assert sizes == [60, 60]


def test_what_the_page_asks_for_before_it_goes_on(open_page: Open, folder: Path) -> None:
    with serving(folder) as address:
        page = open_page(address)
        page.get_by_label("Your name").fill("Dan")
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("heading", name="List 1 of").wait_for()
        page.get_by_role("button", name="Next").click()
        word = words_on(page)[0]
        alert = page.get_by_role("alert").filter(visible=True)
        assert alert.inner_text() == f"Please rate “{word}” first."
        page.goto(f"{address}/#7")  # nobody skips a list
        page.get_by_role("heading", name="List 1 of").wait_for()
        # Arrow keys choose within a word, as in any group of radio buttons.
        choice(page, word, 1).focus()
        page.keyboard.press("ArrowRight")
        saved(page)
        assert answers(folder, "Dan") == {word: 2}
        # Someone else at the same browser; the first goes on with one click.
        page.get_by_role("button", name="Someone else").click()
        page.get_by_label("Or another name").fill("Eve")
        page.get_by_role("button", name="Begin").click()
        page.get_by_text("Eve", exact=True).wait_for()
        assert page.locator("input:checked").count() == 0
        page.get_by_role("button", name="Someone else").click()
        page.get_by_role("button", name="Continue as Eve").click()
        page.get_by_text("0 of 9 words rated").wait_for()


def test_an_answer_given_while_the_server_is_away(
    open_page: Open, folder: Path, watch: Any
) -> None:
    with serving(folder) as address:
        page = open_page(address)
        enter(page, "Flo")
    page.keyboard.press("3")
    word = words_on(page)[0]
    page.get_by_text("The server cannot be reached; your answer stays on this page").wait_for()
    assert answers(folder, "Flo") == {}
    with serving(folder, int(address.rpartition(":")[2])):
        saved(page)
    assert answers(folder, "Flo") == {word: 3}
    assert not page.get_by_text("cannot be reached").is_visible()
    watch.errors[:] = [line for line in watch.errors if "ERR_CONNECTION_REFUSED" not in line]
