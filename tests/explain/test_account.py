"""Whole reports: every learner, with and without words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.clip import Backbone
from ipl.display.html import as_html
from ipl.display.markdown import as_markdown
from ipl.explain.analysis import ReportSettings, analyse_run
from ipl.explain.comparison import compare_runs
from ipl.explain.comparison_document import comparison_document, comparison_values
from ipl.explain.report import report_document
from ipl.explain.values import report_values
from ipl.prompts.layout import prompt_pieces
from tests.helpers.page_check import check_page

MakeRun = Callable[..., Path]
LEARNERS = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("words", [0, 2])
def test_every_learner_has_a_report(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, learner: str, words: int
) -> None:
    run = make_run(learner, words)
    file = pool_file if words else None
    settings = ReportSettings(1, images=8)
    found = analyse_run(run, six_scenes, settings, pocket, words_file=file, cache=False)
    document = report_document(found)
    page = check_page(as_html(document))
    text = "".join(page.text)
    for word in found.subject.words:
        assert f"What “{word}” does" in text
    assert ("Whether to believe it" in text) == bool(words)
    assert bool(page.of("img")) == bool(words)
    assert "nan" not in text.lower().split()
    markdown = as_markdown(document)
    for section in document.sections:
        assert f"## {section.title}" in markdown
    assert "of 2 classes it was not trained on it is right for" in " ".join(document.lead)
    assert "eight of them" not in markdown
    if words:
        assert "**The best 20 words of step 1**" in markdown
        assert "Beside random words in its place, about as frequent, it has" in markdown
        assert "a middling word in its place" in text
        assert "The loss while training, and where words entered" in text
    values = json.loads(json.dumps(report_values(found), allow_nan=False))
    assert values["words"] == list(found.subject.words)
    assert found.test is not None
    assert values["held_out"]["accuracy"] == found.test.accuracy
    assert len(values["vectors"]["vectors"]) == found.subject.learner.layout.soft_count
    accuracy = f"{100 * found.test.accuracy:.1f}\N{NO-BREAK SPACE}%"
    assert accuracy in text
    assert accuracy.replace("\N{NO-BREAK SPACE}", " ") in markdown


def test_a_report_without_images(pocket: Backbone, make_run: MakeRun) -> None:
    found = analyse_run(make_run("coop", 2), backbone=pocket)
    page = check_page(as_html(report_document(found)))
    text = "".join(page.text)
    assert "What this report does not have" in text
    assert "give --data" in text
    assert "Whether to believe it" not in text
    assert not page.of("img")
    assert report_values(found)["effects"] is None


def test_a_comparison_page(make_run: MakeRun) -> None:
    found = compare_runs([make_run("coop", 2), make_run("coop", 0)], device="cpu")
    document = comparison_document(found)
    text = "".join(check_page(as_html(document)).text)
    for run in found.runs:
        assert run.name in text
        for piece in prompt_pieces(run.saved.prompt):
            assert piece.text in text
    assert "Settings that differ" in text
    assert "The runs differ in: words" in text
    assert "## Accuracy" in as_markdown(document)
    assert "drawn as one" not in text
    twice = comparison_document(compare_runs([make_run("coop", 2)] * 2, device="cpu"))
    text = "".join(check_page(as_html(twice)).text)
    assert "are the same prompt." in text
    assert "are the same and drawn as one." in text
    assert "(1) and 1 more" not in text  # one curve needs no legend
    values = json.loads(json.dumps(comparison_values(found), allow_nan=False))
    assert values["differ"]["words"] == ["2", "0"]
