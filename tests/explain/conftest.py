"""What the tests of explain share: one thread, and one whole analysis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from tests.helpers.threads import on_one_thread


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="session")
def analysis(
    pocket: Backbone, make_run: Callable[..., Path], six_scenes: Path, pool_file: Path
) -> Analysis:
    """Returns the analysis of a run with two words, with a trained baseline."""
    settings = ReportSettings(resamples=2, baseline="train")
    with on_one_thread():  # as the tests that recompute its numbers
        return analyse_run(
            make_run("coop", 2), six_scenes, settings, pocket, words_file=pool_file, cache=False
        )
