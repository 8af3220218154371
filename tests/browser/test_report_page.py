"""The report in a browser: read, printed, on a phone, at night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipl.backbone.backbone import Backbone
from ipl.display.page import as_html
from ipl.explain.report import make_report
from tests.helpers.page_measures import PHONE, broken_images, contrasts, overflow

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
MakeRun = Callable[..., Path]
OpenPage = Callable[..., "Page"]
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def report(
    tmp_path_factory: pytest.TempPathFactory,
    pocket: Backbone,
    make_run: MakeRun,
    six_scenes: Path,
    pool_file: Path,
) -> str:
    """Returns the address of a whole report."""
    document = make_report(make_run(), six_scenes, pocket, words_file=pool_file, resamples=1)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(as_html(document), encoding="utf-8")
    return path.as_uri()


def test_a_reader_finds_the_prompt_first_and_every_image(
    report: str, open_page: OpenPage, make_run: MakeRun
) -> None:
    page = open_page(report, viewport={"width": 1280, "height": 800})
    prompt = page.locator(".prompt")
    box = prompt.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 800  # seen without scrolling
    answers = page.locator(".answers").bounding_box()
    assert answers is not None
    assert answers["y"] + answers["height"] < 800
    assert page.evaluate("document.documentElement.scrollHeight") < 3000  # all is folded
    words = prompt.locator(".word").all_inner_texts()
    assert len(words) == 2
    assert page.locator("img").count() > 0
    page.evaluate(OPEN_ALL)
    assert broken_images(page) == []
    for word in words:
        assert page.get_by_role("heading", name=word).count() > 0


def test_sections_are_reached_by_keyboard_alone(report: str, open_page: OpenPage) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    sections = page.locator("details.fold").all()
    assert len(sections) > 5
    for section in sections:
        content = section.locator(".folded")
        assert not content.is_visible()
        section.locator("> summary").focus()
        page.keyboard.press("Enter")
        assert content.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    scheme: str, report: str, open_page: OpenPage
) -> None:
    page = open_page(report, color_scheme=scheme)
    page.evaluate(OPEN_ALL)
    found = contrasts(page)
    assert len(found) > 50
    assert [(text, round(ratio, 2)) for text, ratio in found if ratio < 4.5] == []


def test_a_phone_shows_it_without_scrolling_sideways(
    report: str, open_page: OpenPage, make_run: MakeRun, pocket: Backbone, tmp_path: Path
) -> None:
    page = open_page(report, **PHONE)
    assert overflow(page) == 0
    page.evaluate(OPEN_ALL)
    assert overflow(page) == 0
    wide = "e => e.getBoundingClientRect().width"
    for caption in page.locator("caption:not(.hidden) span").all():
        assert caption.evaluate(wide) <= 358
    path = tmp_path / "report.html"  # without data, with the commands that would tell more
    path.write_text(as_html(make_report(make_run(), backbone=pocket)))
    page = open_page(path.as_uri(), **PHONE)
    page.evaluate(OPEN_ALL)
    assert overflow(page) == 0
    parts = page.locator("pre span").all()
    assert len(parts) > 5
    for part in parts:  # commands are broken at blanks
        assert part.evaluate("e => e.getClientRects().length") == 1


def test_paper_has_every_section(report: str, open_page: OpenPage) -> None:
    page = open_page(report)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("details table").first.is_visible()
    for heading in page.locator("h2").all():
        assert heading.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")
