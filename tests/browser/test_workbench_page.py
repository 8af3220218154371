"""The workbench as a person uses it in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipl import Backbone, PromptClassifier
from ipl.apps.workbench import Workbench
from tests.helpers.page_measures import PHONE, broken_images, contrasts, overflow
from tests.helpers.scenes import open_scene
from tests.helpers.workbench import serve_workbench

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def served(
    browser: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Workbench, str]]:
    with serve_workbench(tmp_path_factory.mktemp("workbench")) as served:
        yield served


def test_a_person_learns_a_prompt_tries_it_and_saves_it(
    served: tuple[Workbench, str],
    open_page: Callable[..., Page],
    tmp_path: Path,
    pocket: Backbone,
) -> None:
    workbench, address = served
    page = open_page(address)
    fit = page.get_by_role("button", name="Fit", exact=True)
    cancel = page.get_by_role("button", name="Cancel")
    fit.click()
    page.get_by_text("There are no images yet").wait_for()
    page.get_by_role("button", name="Try it with drawn scenes").click()
    page.get_by_text("4 classes, 192 images, 96 of them held out.").wait_for()
    assert broken_images(page) == []

    page.get_by_label("Words given").fill("water")
    page.get_by_label("Epochs").fill("5000")
    fit.click()
    page.get_by_text("Training").wait_for()
    cancel.click()
    page.get_by_text("Cancelled.").wait_for()
    page.get_by_label("Epochs").fill("3")
    fit.click()
    page.locator(".prompt .word", has_text="water").wait_for()
    page.get_by_role("row", name="linear probe").wait_for()

    open_scene("lake", 30).save(tmp_path / "mine.png")
    page.locator("input[type=file]").last.set_input_files(tmp_path / "mine.png")
    page.locator(".classified li").nth(2).wait_for()
    page.get_by_label("Other classes").fill("fish, lake")
    page.get_by_role("button", name="Classify").click()
    page.locator(".classified li", has_text="fish").wait_for()

    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved in").wait_for()
    name = "scenes-kgcoop-1w-given-seed1"
    loaded = PromptClassifier.from_pretrained(workbench.runs / name, pocket)
    assert loaded.words_ == ["water"]

    reopened = open_page(address, **PHONE)
    reopened.get_by_label("Open from").click()
    reopened.get_by_role("option", name=name).click()
    reopened.locator(".prompt .word", has_text="water").wait_for()
    for each in (page, reopened):
        assert overflow(each) == 0
        assert [found for found in contrasts(each) if found[1] < 4.5] == []
