"""A browser that is installed on the machine, driven by Playwright, with an eye on its console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]  # for root, and for containers
LOCAL = ("http://127.0.0.1:", "file://", "data:", "blob:", "about:")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yields the installed Chromium, without a window.

    While it is there Playwright's event loop runs in this thread, and no other can.
    """
    chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip(f"no browser is installed (one of {', '.join(NAMES)})")
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        except Error as error:  # it is there, but not for this user or in this container
            pytest.skip(f"{chromium} does not start: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Yields open_page(address, **context): a page of its own, as of another person.

    At the end no page may have had an error in its console or asked for anything elsewhere.
    """
    contexts, errors, elsewhere = [], list[str](), list[str]()

    def guard(route: Any) -> None:
        if route.request.url.startswith(LOCAL):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    def open_one(address: str, **context: Any) -> Page:
        own = browser.new_context(**context)
        contexts.append(own)
        own.set_default_timeout(30_000)
        own.route("**/*", guard)
        page = own.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and errors.append(line.text))
        page.goto(address)
        return page

    yield open_one
    for own in contexts:
        own.close()
    assert (elsewhere, errors) == ([], [])
