"""Accuracies on trained and on other classes, as the classifier scores them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.display.document import Document
from ipl.explain.report import report_values
from ipl.training.comparison import HEAD, PROMPT, ZERO_SHOT


def test_trained_and_other_classes_as_the_classifier_scores_them(
    report: Document, scenes: Dataset, make_run: Callable[..., Path], pocket: Backbone
) -> None:
    values = report_values(report)["sections"]["accuracy"]
    base, novel = scenes.only(range(4), "base"), scenes.only(range(4, 6), "novel")
    classifier = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    store = FeatureStore(pocket)
    scores, novel_scores = values["scores"], values["novel"]["scores"]
    assert scores[HEAD]["accuracy"] == pytest.approx(classifier.score(base))
    assert scores[ZERO_SHOT]["accuracy"] == pytest.approx(zero_shot_accuracy(base, store))
    other = classifier.with_classes(novel)
    assert novel_scores[PROMPT]["accuracy"] == pytest.approx(other.score(novel))
    assert novel_scores[ZERO_SHOT]["accuracy"] == pytest.approx(zero_shot_accuracy(novel, store))
    assert sum(map(sum, values["confusion"])) == 16
    assert f"{values['novel']['images']} images of 2 classes" in report.answers[1].answer
