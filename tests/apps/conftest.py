"""What the tests of the apps share: a fitted prompt, and an image as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ipl import Backbone, Dataset, Pool, PromptClassifier
from tests.helpers.scenes import open_scene
from tests.helpers.serving import to_bytes

POOL = Pool.from_words(("blue", "furry", "remote", "title"), "test")
FAST: dict[str, Any] = {
    "epochs": 1, "interval": 1, "batch": 3, "shots": 1, "views": 0, "pool": POOL, "cache": False,
}  # fmt: skip


@pytest.fixture(scope="session")
def make_classifier(pocket: Backbone, scenes: Dataset) -> Callable[..., PromptClassifier]:
    """Returns a function that fits a prompt for three classes: make_classifier("coop", shots=1)."""
    three = scenes.only([0, 2, 3], "three")
    return lambda learner, **more: PromptClassifier(pocket, learner, 1, **FAST | more).fit(three)


@pytest.fixture(scope="session")
def classifier(make_classifier: Callable[..., PromptClassifier]) -> PromptClassifier:
    """Returns a CoOp prompt for beach, forest and mountain."""
    return make_classifier("coop")


@pytest.fixture(scope="session")
def beach() -> bytes:
    """Returns a drawn beach as a PNG file."""
    return to_bytes(open_scene("beach", 0))
