"""Accuracies of all methods, as the classifier scores them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.explain.accuracy import PROMPT, ZERO_SHOT
from ipl.explain.report import Analysis
from ipl.metrics import harmonic_mean

MakeRun = Callable[..., Path]


def test_base_and_novel_as_the_classifier_scores_them(
    analysis: Analysis, scenes: Dataset, make_run: MakeRun, pocket: Backbone
) -> None:
    outcomes = analysis.outcomes
    assert outcomes is not None
    assert len(outcomes.novel_classes) == 2
    classifier = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    base, novel = scenes.only(range(4), "base"), scenes.only(range(4, 6), "novel")
    store = FeatureStore(pocket)
    prompt, frozen = outcomes.of(PROMPT), outcomes.of(ZERO_SHOT)
    assert prompt is not None
    assert prompt.novel is not None
    assert frozen is not None
    assert frozen.novel is not None
    assert prompt.test.accuracy == pytest.approx(classifier.score(base))
    assert prompt.novel.accuracy == pytest.approx(classifier.with_classes(novel).score(novel))
    assert frozen.test.accuracy == pytest.approx(zero_shot_accuracy(base, store))
    assert frozen.novel.accuracy == pytest.approx(zero_shot_accuracy(novel, store))
    assert prompt.hm == harmonic_mean(prompt.test.accuracy, prompt.novel.accuracy)
    assert prompt.counts is not None
    assert sum(map(sum, prompt.counts)) == 16
