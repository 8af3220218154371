"""What the tests of words share."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.backbone.loading import load_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer("pocket")
