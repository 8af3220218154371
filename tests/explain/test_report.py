"""Whole reports: every learner, with and without words, with and without data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.report import Analysis, ReportSettings, analyse_run, report_document
from ipl.explain.report_values import report_values
from ipl.explain.word_effects import NO_EFFECT
from ipl.support.errors import ConfigError
from ipl.training.baseline_names import WITHOUT_WORDS
from tests.helpers.page_check import check_page

MakeRun = Callable[..., Path]
LEARNERS = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")


@pytest.mark.parametrize("bad", [{"resamples": -1}, {"images": 0}])
def test_settings_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ReportSettings(**bad)


def test_the_images_are_those_of_training(analysis: Analysis) -> None:
    assert analysis.run_images is not None
    assert analysis.run_images.notes == ()
    assert len(analysis.run_images.shots.items) == 16
    assert len(analysis.run_images.test.items) == 16
    saved = analysis.run.result.results["held_out_accuracy"]
    assert analysis.test is not None
    assert analysis.test.accuracy == pytest.approx(saved)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("words", [0, 2])
def test_every_learner_has_a_report(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, learner: str, words: int
) -> None:
    run = make_run(learner, words)
    file = pool_file if words else None
    settings = ReportSettings(1, images=8)
    analysis = analyse_run(run, six_scenes, settings, pocket, words_file=file, cache=False)
    document = report_document(analysis)
    page = check_page(as_html(document))
    text = "".join(page.text)
    for word in analysis.run.words:
        assert f"What “{word}” does" in text
    assert ("Whether to believe it" in text) == bool(words)
    mistakes = [image for image in page.of("img") if "taken for" in image["alt"]]
    assert (len(page.of("img")) > len(mistakes)) == bool(words)
    assert analysis.doubtful_images is not None
    doubtful = (*analysis.doubtful_images.mistakes, *analysis.doubtful_images.label_errors)
    assert len(mistakes) == len(doubtful)
    assert "nan" not in text.lower().split()
    markdown = as_markdown(document)
    for section in document.sections:
        assert f"## {section.title}" in markdown
    better, words_matter, sure = (each.answer for each in document.answers)
    assert "of 2 classes it was not trained on it is right for" in better
    assert all(0 < len(section.summary) < 200 for section in document.sections)
    assert "eight of them" not in markdown
    if words:
        assert "**The best 20 words of step 1**" in markdown
        assert "Random words in its place" in markdown
        assert "which flatters them here" in text
        assert "resamples (gain" in sure
        assert "In the finished prompt" in words_matter or NO_EFFECT in words_matter
        assert "The loss while training, and where words entered" in text
    values = json.loads(json.dumps(report_values(analysis), allow_nan=False))
    assert values["words"] == list(analysis.run.words)
    assert analysis.test is not None
    assert values["held_out"]["accuracy"] == analysis.test.accuracy
    assert len(values["vectors"]["vectors"]) == analysis.run.learner.layout.soft_count
    accuracy = f"{100 * analysis.test.accuracy:.1f}\N{NO-BREAK SPACE}%"
    assert accuracy in text
    assert accuracy.replace("\N{NO-BREAK SPACE}", " ") in markdown


def test_a_report_without_images(pocket: Backbone, make_run: MakeRun) -> None:
    analysis = analyse_run(make_run("coop", 2), backbone=pocket)
    page = check_page(as_html(report_document(analysis)))
    text = "".join(page.text)
    assert "What this report does not have" in text
    assert "give --data" in text
    assert "Whether to believe it" not in text
    assert not page.of("img")
    assert report_values(analysis)["effects"] is None


def test_the_first_lines_are_the_verdict(
    analysis: Analysis, pocket: Backbone, make_run: MakeRun
) -> None:
    assert analysis.outcomes is not None
    document = report_document(analysis)
    first, second, _ = (each.answer for each in document.answers)
    assert first.startswith("On 16 held-out images it is right for ")
    verdict = analysis.outcomes.comparison.verdict
    assert all(sentence in f"{first} {second}" for sentence in verdict)
    assert "The same prompt without words was not trained: ipl fit --compare." in second
    compared = analysis.outcomes.comparison
    of_words = replace(compared.prompt, name=WITHOUT_WORDS, gained=0, lost=0)
    saved_then = replace(compared, methods=(of_words, *compared.methods))
    run = replace(analysis.run, result=replace(analysis.run.result, comparison=saved_then))
    second = report_document(replace(analysis, run=run)).answers[1].answer
    assert "ipl fit --compare" not in second
    assert "When it was trained, on other images: Not distinguishable from" in second
    assert document.table is not None
    shown = [row[0] for row in document.table.rows]
    assert shown == [method.title for method in analysis.outcomes.comparison.methods]
    without_data = analyse_run(make_run("coop", 2), backbone=pocket)
    saved = without_data.run.result.comparison
    assert saved is not None
    first = report_document(without_data).answers[0].answer
    assert first.startswith("When it was trained: on 16 held-out images it is right for ")
    assert all(sentence in first for sentence in saved.verdict)
    older = replace(without_data.run.result, comparison=None)
    older_run = replace(without_data, run=replace(without_data.run, result=older))
    first = report_document(older_run).answers[0].answer
    assert first.startswith("When it was trained, its held-out accuracy was ")


def test_without_data_it_says_what_is_missing(pocket: Backbone, make_run: MakeRun) -> None:
    analysis = analyse_run(make_run("coop", 2), backbone=pocket)
    assert analysis.effects is None
    assert analysis.outcomes is None
    assert [word.word for word in analysis.words] == list(analysis.run.words)
    assert analysis.vectors.vectors[0].moved is not None
    told = " ".join(f"{missing.part}: {missing.why}" for missing in analysis.missing)
    assert "--data" in told
    assert "--words-file" in told
    assert "--plain" in told
