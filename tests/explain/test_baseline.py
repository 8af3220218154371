"""The learner without words: trained as `ipl fit` would, or a saved run that fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.explain.accuracy import BASELINE
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from ipl.support.errors import ConfigError

MakeRun = Callable[..., Path]


def test_the_plain_learner_is_the_one_fit_would_train(
    analysis: Analysis, make_run: MakeRun, pocket: Backbone
) -> None:
    assert analysis.baseline is not None
    classifier = PromptClassifier.from_pretrained(make_run("coop", 0), pocket)
    assert analysis.baseline.config.hyperparameters.m == classifier.hyperparameters.m == 4
    own = analysis.outcomes.of(BASELINE) if analysis.outcomes else None
    assert own is not None
    assert own.test.accuracy == pytest.approx(classifier.result_.held_out_accuracy)
    assert analysis.baseline_vectors is not None
    assert len(analysis.baseline_vectors.vectors) == 4
    assert analysis.missing == ()


def test_a_plain_run_must_be_plain_and_alike(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="has words"):
        analyse_run(
            make_run("coop", 2),
            backbone=pocket,
            settings=ReportSettings(baseline=str(make_run("coop", 2))),
        )
    with pytest.raises(ConfigError, match="give --data"):
        analyse_run(make_run("coop", 2), backbone=pocket, settings=ReportSettings(baseline="train"))
