"""Whole reports: every learner, with and without words, with and without data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.report import Analysis, ReportSettings, analyse_run, report_document
from ipl.explain.report_values import report_values
from ipl.support.errors import ConfigError
from tests.helpers.page_check import check_page

MakeRun = Callable[..., Path]
LEARNERS = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")


@pytest.mark.parametrize("bad", [{"resamples": -1}, {"images": 0}])
def test_settings_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ReportSettings(**bad)


@pytest.mark.parametrize(("learner", "words"), [("coop", 0), *((name, 2) for name in LEARNERS)])
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
    values = json.loads(json.dumps(report_values(analysis), allow_nan=False))
    assert values["words"] == list(analysis.run.words)
    hashes = [each for of_class in analysis.run.result.image_hashes for each in of_class]
    assert hashes
    assert not any(digest in str(values) or digest in markdown for digest in hashes)
    assert analysis.test is not None
    assert values["held_out"]["accuracy"] == analysis.test.accuracy
    assert len(values["vectors"]["vectors"]) == analysis.run.learner.layout.soft_count
    accuracy = f"{100 * analysis.test.accuracy:.1f}\N{NO-BREAK SPACE}%"
    assert accuracy in text
    assert accuracy.replace("\N{NO-BREAK SPACE}", " ") in markdown


def test_the_first_lines_are_the_verdict(
    analysis: Analysis, pocket: Backbone, make_run: MakeRun
) -> None:
    assert analysis.outcomes is not None
    document = report_document(analysis)
    first, second, _ = (each.answer for each in document.answers)
    verdict = analysis.outcomes.comparison.verdict
    assert all(sentence in f"{first} {second}" for sentence in verdict)
    assert document.table is not None
    shown = [row[0] for row in document.table.rows]
    assert shown == [method.title for method in analysis.outcomes.comparison.methods]
    without_data = analyse_run(make_run("coop", 2), backbone=pocket)
    saved = without_data.run.result.comparison
    assert saved is not None
    first = report_document(without_data).answers[0].answer
    assert all(sentence in first for sentence in saved.verdict)


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
