"""What notebooks display: the words and numbers are there, and every name is escaped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.display.page import notebook_html
from ipl.display.table import Table
from ipl.words.selection import RankedWord
from tests.helpers.page_check import Page
from tests.helpers.saved_runs import make_result

EVIL = "<script>alert('x')</script>"
TAGS = {"div", "p", "strong", "table", "caption", "span", "thead", "tbody", "tr", "th", "td"}


def displayed(html: str) -> str:
    """Returns the text of what a notebook displays, with only harmless tags around it."""
    page = Page(html)
    assert {tag for tag, _ in page.tags} <= TAGS
    return "".join(page.text)


def test_sentences_and_tables() -> None:
    html = notebook_html(EVIL, [f"a sentence & {EVIL}", Table(["name"], [[EVIL]], title=EVIL)])
    text = displayed(html)
    assert text.count(EVIL) == 4
    assert f"a sentence & {EVIL}" in text
    assert html.count(escape(EVIL)) == 5  # the table's region has a label, too


def test_selection() -> None:
    selection = make_result().selection
    assert selection is not None
    (step,) = selection.steps
    evil = replace(step, word=EVIL, runners_up=(RankedWord(EVIL, 0.1),))
    text = displayed(replace(selection, steps=(evil,))._repr_html_())
    assert text.count(EVIL) >= 3  # a row, the next best word of it, a sentence
    assert "+0.5000" in text
    assert repr(selection) == "Selection(words=('stone',), search='exact')"


def test_classifier(make_run: Callable[..., Path], pocket: Backbone) -> None:
    assert displayed(PromptClassifier()._repr_html_()).strip() == repr(PromptClassifier())
    classifier = PromptClassifier.from_pretrained(make_run(), pocket)
    text = displayed(classifier._repr_html_())
    assert classifier.prompt_ in text
    assert all(word in text for word in (*classifier.words_, *classifier.classes_[:3], "zero-shot"))
    other = classifier.with_classes([EVIL, *(f"class {number}" for number in range(30))])
    text = displayed(other._repr_html_())
    assert EVIL in text
    assert "31 classes" in text
    assert "class 29" not in text
    assert "zero-shot" not in text  # the accuracies are those of other classes
