"""Clients of a service, with its default limits or with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl import PromptClassifier
from ipl.apps.limits import Limits
from ipl.apps.serve.app import create_app


@pytest.fixture
def start(classifier: PromptClassifier) -> Iterator[Callable[..., TestClient]]:
    """Yields a function that starts a service with other limits: start(max_pixels=100)."""
    with ExitStack() as running:

        def call(**limits: Any) -> TestClient:
            app = create_app(classifier, Limits(**{"wait_ms": 0, **limits}))
            return running.enter_context(TestClient(app, raise_server_exceptions=False))

        yield call


@pytest.fixture(scope="module")
def client(classifier: PromptClassifier) -> Iterator[TestClient]:
    """Yields a client of a service with the default limits."""
    app = create_app(classifier, Limits(wait_ms=0))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
