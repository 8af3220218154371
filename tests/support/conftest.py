"""A cache in a temporary folder, and what it warns of."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_helpers import Ear

from ipl.support.cache import Cache


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
def cache(tmp_path: Path, ear: Ear) -> Cache:
    return Cache(tmp_path / "cache", ear)
