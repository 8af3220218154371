"""The page of the service as a person uses it in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.forked import Command
from tests.helpers.page_measures import overflow
from tests.helpers.scenes import open_scene

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def address(make_run: Callable[..., Path], tmp_path: Path) -> Iterator[str]:
    home = tmp_path / "home"
    home.mkdir()
    server = Command("serve", make_run(), "--port", 0, "--device", "cpu", folder=home)
    yield server.line(" answers at ").split(" answers at ")[1].split()[0]
    server.process.terminate()
    assert server.wait().code == 0


def test_a_person_tries_an_image(
    address: str, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(address)
    open_scene("lake", 30).save(tmp_path / "mine.png")
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.png")
    page.get_by_label("Other classes").fill("fish, lake, castle")
    page.get_by_label("Top").fill("2")
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("heading", name="Result").wait_for()
    assert page.get_by_role("row").count() == 2
    assert overflow(page) == 0
