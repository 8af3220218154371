"""Whole reports: every learner, with and without words, with and without data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.display.document import Document
from ipl.display.page import as_html
from ipl.explain.report import SECTIONS, make_report, report_values, with_saved
from ipl.saving.format import read_run
from ipl.training.comparison import (
    HEAD,
    LINEAR_PROBE,
    PROMPT,
    WITHOUT_WORDS,
    ZERO_SHOT,
    Method,
)
from tests.helpers.page_check import check_page

MakeRun = Callable[..., Path]
LEARNERS = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")


@pytest.mark.parametrize(("learner", "words"), [("coop", 0), *((name, 2) for name in LEARNERS)])
def test_every_learner_has_a_report(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, learner: str, words: int
) -> None:
    run = make_run(learner, words)
    file = pool_file if words else None
    document = make_report(run, six_scenes, pocket, words_file=file, cache=False, resamples=1)
    text = "".join(check_page(as_html(document)).text)
    result = read_run(run)
    anchors = {section.anchor for section in document.sections}
    assert {"accuracy", "data", "more", "words", "vectors", "made"} <= anchors
    assert ({"effects", "stability"} <= anchors) == bool(words)
    assert all(word in text for word in result.words)
    assert "nan" not in text.lower().split()
    values = json.loads(json.dumps(report_values(document), allow_nan=False))
    assert values["words"] == list(result.words)
    hashes = [each for of_class in result.image_hashes for each in of_class]
    assert hashes
    assert not any(digest in str(values) or digest in text for digest in hashes)


def test_a_whole_report_has_all_sections_and_the_verdict_first(
    report: Document, make_run: MakeRun
) -> None:
    assert len(report.sections) == len(SECTIONS)
    values = report_values(report)["sections"]
    comparison = values["accuracy"]["comparison"]
    *sentences, recommendation = comparison["verdict"]
    use, how_good, words = report.answers.values()
    assert use[1:] in recommendation
    assert all(sentence in how_good for sentence in sentences)
    assert report.table is not None
    saved = read_run(make_run("coop", 2)).comparison
    assert saved is not None
    counts = {method["name"]: method["correct"] for method in comparison["methods"]}
    for name in (ZERO_SHOT, LINEAR_PROBE, PROMPT):  # as the fit saved them
        method = saved.of(name)
        assert method is not None
        assert counts[name] == list(method.correct)
    assert "loss by" in words


def test_accuracies_are_those_of_the_classifier(
    report: Document, scenes: Dataset, make_run: MakeRun, pocket: Backbone
) -> None:
    values = report_values(report)["sections"]["accuracy"]
    four = scenes.only(range(4), "four")
    accuracies = {each["name"]: each["accuracy"] for each in values["comparison"]["methods"]}
    classifier = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    assert accuracies[HEAD] == pytest.approx(classifier.score(four))
    zero_shot = zero_shot_accuracy(four, FeatureStore(pocket))
    assert accuracies[ZERO_SHOT] == pytest.approx(zero_shot)
    assert sum(map(sum, values["confusion"])) == len(four.test)


def test_without_data_it_shows_what_is_saved_and_says_what_is_missing(
    pocket: Backbone, make_run: MakeRun
) -> None:
    run = make_run("coop", 2)
    document, saved = make_report(run, backbone=pocket), read_run(run).comparison
    assert saved is not None
    assert all(sentence in document.answers["How good is it?"] for sentence in saved.verdict[:-1])
    sections = {section.anchor: section for section in document.sections}
    assert not {"mistakes", "data", "more", "effects", "stability"} & sections.keys()
    told = as_html(document)
    assert "--data" in told
    assert "--words-file" in told


def test_the_prompt_without_words_of_the_fit_is_shown_for_the_same_images_only(
    make_run: MakeRun,
) -> None:
    comparison = read_run(make_run("coop", 2)).comparison
    assert comparison is not None
    method = Method(WITHOUT_WORDS, "empty", comparison.prompt.correct, 2, 2)
    saved = comparison.with_method(method)
    assert with_saved(comparison, saved).of(WITHOUT_WORDS) == method
    assert with_saved(comparison, comparison) == comparison
    fewer = tuple(max(0, count - 1) for count in comparison.prompt.correct)
    change = sum(fewer) - sum(comparison.prompt.correct)
    worse = {
        WITHOUT_WORDS: replace(method, lost=method.lost - change),
        PROMPT: replace(saved.prompt, correct=fewer, gained=saved.prompt.gained - change),
    }
    other = replace(saved, methods=tuple(worse.get(m.name, m) for m in saved.methods))
    assert with_saved(comparison, other) == comparison
