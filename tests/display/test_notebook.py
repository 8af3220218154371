"""What notebooks display: the words and numbers are there, and every name is escaped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.display.page import notebook_html
from ipl.display.table import Table
from ipl.explain.compared_runs import compare_runs
from ipl.words.selection import Certainty, RankedWord, Selection, SelectionStep

EVIL = "<script>alert('x')</script>"
TAGS = {"div", "p", "strong", "table", "caption", "span", "thead", "tbody", "tr", "th", "td"}


class _Reader(HTMLParser):
    """Collects the tags and the text of a piece of HTML; a tag that is not closed is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def displayed(value: Any) -> str:
    """Returns the text of what a notebook displays, with only harmless tags around it."""
    reader = _Reader(value._repr_html_())
    assert set(reader.tags) <= TAGS
    return reader.text


def selection(word: str = "stone") -> Selection:
    ranked = (RankedWord(EVIL, 0.1),)
    step = SelectionStep(word, 0.3, 0.1, 0.25, 1.5, ranked, 24, 0.1, certainty=Certainty(0.7, 0, 1))
    return Selection((step,), 1.8, "{cls} {words}", 0.1, "paper", "text", 24, "0" * 64)


def test_sentences_and_tables() -> None:
    html = notebook_html(EVIL, [f"a sentence & {EVIL}", Table(["name"], [[EVIL]], title=EVIL)])
    reader = _Reader(html)
    assert set(reader.tags) <= TAGS
    assert reader.text.count(EVIL) == 4
    assert f"a sentence & {EVIL}" in reader.text
    assert html.count(escape(EVIL)) == 5  # the table's region has a label, too


def test_selection() -> None:
    text = displayed(selection(EVIL))
    assert text.count(EVIL) >= 3  # a row, the next best word of it, a sentence
    assert "+0.2500" in text
    assert "wins 70 of 100" in text
    assert repr(selection()) == "Selection(words=('stone',), search='exhaustive')"


def test_classifier(make_run: Callable[..., Path], pocket: Backbone) -> None:
    assert displayed(PromptClassifier()).strip() == repr(PromptClassifier())
    classifier = PromptClassifier.from_pretrained(make_run(), pocket)
    text = displayed(classifier)
    assert classifier.prompt_ in text
    assert all(word in text for word in (*classifier.words_, *classifier.classes_, "zero-shot"))
    other = classifier.with_classes([EVIL, *(f"class {number}" for number in range(30))])
    text = displayed(other)
    assert EVIL in text
    assert "31 classes" in text
    assert "class 29" not in text
    assert "zero-shot" not in text  # the accuracies are those of other classes


def test_runs_side_by_side(make_run: Callable[..., Path], tmp_path: Path) -> None:
    folders = [tmp_path / "<script>one", tmp_path / "two"]
    for folder, words in zip(folders, (2, 0), strict=True):
        shutil.copytree(make_run("coop", words), folder)
    comparison = compare_runs(folders, device="cpu")
    text = displayed(replace(comparison, notes=(EVIL,)))
    assert "<script>one" in text
    assert EVIL in text
    assert all(run.result.prompt in text for run in comparison.runs)
