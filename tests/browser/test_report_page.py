"""The report and the comparison in a browser: read, printed, on a phone, at night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipl.backbone.clip import Backbone
from ipl.display.html import as_html
from ipl.explain.analysis import ReportSettings, analyse_run
from ipl.explain.comparison import compare_runs
from ipl.explain.comparison_document import comparison_document
from ipl.explain.report import report_document
from tests.helpers.page_measures import PHONE, broken_images, contrasts, overflow

if TYPE_CHECKING:
    from playwright.sync_api import Page

MakeRun = Callable[..., Path]
OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def report(
    tmp_path_factory: pytest.TempPathFactory,
    pocket: Backbone,
    make_run: MakeRun,
    six_scenes: Path,
    pool_file: Path,
) -> str:
    """Returns the address of a whole report."""
    settings = ReportSettings(resamples=1, images=12, plain="train")
    analysis = analyse_run(make_run(), six_scenes, settings, pocket, words_file=pool_file)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(as_html(report_document(analysis)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory, make_run: MakeRun) -> str:
    """Returns the address of a comparison of two runs."""
    document = comparison_document(compare_runs([make_run(), make_run("coop", 1)]))
    path = tmp_path_factory.mktemp("comparison") / "comparison.html"
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
    words = prompt.locator(".word").all_inner_texts()
    assert len(words) == 2
    assert page.locator("img").count() > 0
    assert broken_images(page) == []
    for word in words:
        assert page.get_by_role("heading", name=word).count() > 0


def test_sections_and_numbers_are_reached_by_keyboard_alone(
    report: str, open_page: OpenPage
) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for link in page.locator("nav a").all():
        link.focus()
        page.keyboard.press("Enter")
        target = link.get_attribute("href")
        assert target is not None
        assert page.locator(target).evaluate("e => e.getBoundingClientRect().top < innerHeight")
    closed = page.locator("details").first
    table = closed.locator("table")
    assert not table.is_visible()
    closed.locator("summary").focus()
    page.keyboard.press("Enter")
    assert table.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["report", "comparison"])
def test_every_text_stands_out_from_its_ground(
    which: str, scheme: str, open_page: OpenPage, request: pytest.FixtureRequest
) -> None:
    page = open_page(request.getfixturevalue(which), color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = contrasts(page)
    assert len(found) > 50
    weak = [(text, round(ratio, 2)) for text, ratio in found if ratio < 4.5]
    assert weak == []


@pytest.mark.parametrize("which", ["report", "comparison"])
def test_a_phone_shows_it_without_scrolling_sideways(
    which: str, open_page: OpenPage, request: pytest.FixtureRequest
) -> None:
    page = open_page(request.getfixturevalue(which), **PHONE)
    assert overflow(page) == 0
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert overflow(page) == 0


def test_a_phone_breaks_commands_at_blanks_and_wraps_captions(
    open_page: OpenPage, make_run: MakeRun, pocket: Backbone, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(as_html(report_document(analyse_run(make_run(), backbone=pocket))))
    page = open_page(path.as_uri(), **PHONE)
    parts = page.locator("pre span").all()
    assert len(parts) > 5
    for part in parts:
        assert part.evaluate("e => e.getClientRects().length") == 1
        tall = part.evaluate("e => e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight)")
        assert tall < 1.5 or part.evaluate("e => e.textContent.length") > 30
    wide = "e => e.getBoundingClientRect().width"
    for caption in page.locator("caption:not(.hidden) span").all():
        assert caption.evaluate(wide) <= 358
    settings = page.get_by_role("region", name="Settings")
    assert settings.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_paper_has_the_numbers_and_no_navigation(report: str, open_page: OpenPage) -> None:
    page = open_page(report)
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator("nav").is_visible()
    assert page.locator("details table").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_nothing_is_lost_without_scripts(report: str, open_page: OpenPage) -> None:
    with_scripts = open_page(report).locator("body").inner_text()
    without = open_page(report, java_script_enabled=False).locator("body").inner_text()
    assert without == with_scripts
