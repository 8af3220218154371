"""A page of the documentation site in a browser: formulas and search work without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.docs_site import build_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
TEXT = r"""# Home

The weight $\lambda$ is small, and the gain of a giraffe is

$$
G(W) = U(W) - \lambda \sum_{i<j} \, \dfrac{\cos(e_i, e_j)}{2}
$$
"""


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Yields the address at which a site of one page is served."""
    done = build_page(tmp_path, TEXT)
    assert done.returncode == 0, done.stderr
    handler = partial(_Quiet, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


def test_formulas_and_search(address: str, open_page: Callable[..., Page]) -> None:
    page = open_page(address)
    inline, block = page.locator("svg.formula").all()
    assert inline.get_attribute("aria-label") == r"\lambda"
    small, large = inline.bounding_box(), block.bounding_box()
    assert small is not None
    assert large is not None
    assert 5 < small["width"] < 20
    assert large["width"] > 100
    assert large["height"] > small["height"]
    page.get_by_placeholder("Search").click()
    page.get_by_placeholder("Search").press_sequentially("giraffe")
    found = page.locator(".md-search-result__item").first
    found.wait_for()
    assert "Home" in found.inner_text()
