"""Accuracies of all methods, as the classifier scores them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.explain.accuracy import with_saved
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from ipl.metrics import harmonic_mean
from ipl.saving.format import read_run
from ipl.support.errors import ConfigError
from ipl.training.comparison import (
    LINEAR_PROBE,
    PLAIN_LEARNER,
    PROMPT,
    WITHOUT_WORDS,
    ZERO_SHOT,
    Method,
)

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


@pytest.mark.parametrize("more", [0, 1])
def test_why_there_are_no_novel_classes(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, tmp_path: Path, more: int
) -> None:
    run = make_run("coop", 0)
    own = read_run(run).classes
    others = [path.name for path in sorted((six_scenes / "test").iterdir())]
    others = [name for name in others if name not in own][:more]
    for name in (*own, *others):
        shutil.copytree(six_scenes / "test" / name, tmp_path / "test" / name)
    outcomes = analyse_run(run, tmp_path, ReportSettings(0), pocket, cache=False).outcomes
    assert outcomes is not None
    but = f" but {others[0]!r}." if others else "."
    assert str(outcomes.why_no_novel).startswith(
        f"The run was trained on all classes of this data{but}"
    )


def test_the_comparison_is_that_of_the_fit(analysis: Analysis) -> None:
    """The report's own counts of zero-shot, probe and prompt are those that the fit saved."""
    saved, outcomes = analysis.run.result.comparison, analysis.outcomes
    assert saved is not None
    assert outcomes is not None
    for name in (ZERO_SHOT, LINEAR_PROBE, PROMPT):
        assert outcomes.comparison.of(name) == saved.of(name)


def test_the_plain_learner_is_the_one_that_fit_would_train(
    analysis: Analysis, make_run: MakeRun, pocket: Backbone
) -> None:
    result = PromptClassifier.from_pretrained(make_run("coop", 0), pocket).result_
    assert analysis.baseline is not None
    assert analysis.baseline.config.hyperparameters.m == result.hyperparameters.m == 4
    assert analysis.outcomes is not None
    plain, counts = (
        each.of(PLAIN_LEARNER) for each in (analysis.outcomes, analysis.outcomes.comparison)
    )
    assert plain is not None
    assert plain.test.accuracy == pytest.approx(result.held_out_accuracy)
    assert analysis.outcomes.comparison.accuracy(counts) == pytest.approx(plain.test.accuracy)
    assert analysis.baseline_vectors is not None
    assert len(analysis.baseline_vectors.vectors) == 4
    assert analysis.missing == ()
    words = make_run("coop", 2)
    with pytest.raises(ConfigError, match="has words"):
        analyse_run(words, backbone=pocket, settings=ReportSettings(baseline=str(words)))


def test_the_prompt_without_words_of_the_fit_is_shown_for_the_same_images_only(
    analysis: Analysis,
) -> None:
    comparison = analysis.run.result.comparison
    assert comparison is not None
    prompt = comparison.prompt
    method = Method(WITHOUT_WORDS, "empty", prompt.correct, 2, 2)
    saved = comparison.with_method(method)
    assert with_saved(comparison, saved).of(WITHOUT_WORDS) == method
    assert with_saved(comparison, comparison) == comparison
    fewer = tuple(max(0, count - 1) for count in prompt.correct)
    change = sum(fewer) - sum(prompt.correct)
    methods = [replace(m, gained=m.gained, lost=m.lost - change) for m in saved.methods[:-1]]
    other = replace(saved, methods=(*methods, replace(prompt, correct=fewer)))
    assert with_saved(comparison, other) == comparison
