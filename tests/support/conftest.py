"""A cache in a temporary folder, and what it warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.support.cache import Cache
from tests.helpers.cache import Ear


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
def cache(tmp_path: Path, ear: Ear) -> Cache:
    return Cache(tmp_path / "cache", ear)
