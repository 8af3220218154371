"""Classifiers to export, one of each learner, and images to compare on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from PIL import Image

from ipl import Backbone, Dataset, Pool, PromptClassifier
from tests.helpers.scenes import open_scene

POOL = Pool.from_words(("adopt", "blue", "furry", "phone", "pile", "visit"), "test")
FAST: dict[str, Any] = {
    "views": 0, "epochs": 2, "interval": 1, "shots": 2, "lr": 0.02, "pool": POOL, "cache": False
}  # fmt: skip


@pytest.fixture(scope="session")
def fitted(pocket: Backbone, scenes: Dataset) -> Callable[..., PromptClassifier]:
    """Returns a maker of quickly fitted classifiers: fitted("coop", 2)."""
    three = scenes.only([0, 4, 17], "three")

    @cache
    def make(learner: str, words: int) -> PromptClassifier:
        return PromptClassifier(pocket, learner, words, **FAST).fit(three)

    return make


@pytest.fixture(scope="session")
def images() -> list[Image.Image]:
    """Returns five scenes that no classifier has seen."""
    return [open_scene(name, 47) for name in ("beach", "snowfield", "castle", "lake", "sunset")]
