"""What the tests of analysis share: one thread."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""
