"""What the tests of the service share: a fitted prompt, a client, images as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl import Pool, PromptClassifier
from ipl.apps.limits import Limits
from ipl.apps.serve.app import create_app
from ipl.backbone.clip import Backbone
from ipl.datasets.dataset import Dataset
from ipl_scenes import draw
from tests.helpers.serving import to_bytes

POOL = Pool.from_words(("blue", "furry", "remote", "title"), "test")
FAST: dict[str, Any] = {
    "epochs": 1, "interval": 1, "batch": 3, "shots": 1, "views": 0, "pool": POOL, "cache": False,
}  # fmt: skip


@pytest.fixture(scope="session")
def make_classifier(pocket: Backbone, scenes: Dataset) -> Callable[[str], PromptClassifier]:
    """Returns a maker of prompts for three classes, by learner."""
    three = scenes.only([0, 2, 3], "three")
    return lambda learner: PromptClassifier(pocket, learner, 1, **FAST).fit(three)


@pytest.fixture(scope="session")
def classifier(make_classifier: Callable[[str], PromptClassifier]) -> PromptClassifier:
    """Returns a CoOp prompt for beach, forest and mountain."""
    return make_classifier("coop")


@pytest.fixture
def start(classifier: PromptClassifier) -> Iterator[Callable[..., TestClient]]:
    """Returns a starter of services with their own limits: start(max_pixels=100)."""
    with ExitStack() as running:

        def call(**limits: Any) -> TestClient:
            app = create_app(classifier, Limits(**{"wait_ms": 0, **limits}))
            return running.enter_context(TestClient(app, raise_server_exceptions=False))

        yield call


@pytest.fixture(scope="module")
def client(classifier: PromptClassifier) -> Iterator[TestClient]:
    """Returns a service with the usual limits."""
    app = create_app(classifier, Limits(wait_ms=0))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def beach() -> bytes:
    """Returns a drawn beach as a PNG file."""
    return to_bytes(draw("beach", 0))
