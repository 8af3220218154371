"""What the tests of explain share: one thread, one loaded run with its images, and its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.display.document import Document
from ipl.explain.inputs import LoadedRun, RunImages, find_images, load_run
from ipl.explain.report import make_report
from tests.helpers.threads import on_one_thread

MakeRun = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="session")
def loaded(pocket: Backbone, make_run: MakeRun, pool_file: Path) -> LoadedRun:
    """Returns a run with two words."""
    return load_run(make_run("coop", 2), pocket, words_file=pool_file, cache=False)


@pytest.fixture(scope="session")
def run_images(loaded: LoadedRun, six_scenes: Path) -> RunImages:
    """Returns the images of that run."""
    return find_images(loaded, six_scenes)


@pytest.fixture(scope="session")
def report(pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path) -> Document:
    """Returns the whole report on that run."""
    with on_one_thread():  # as the tests that recompute its numbers
        return make_report(
            make_run("coop", 2),
            six_scenes,
            pocket,
            words_file=pool_file,
            cache=False,
            resamples=2,
        )
