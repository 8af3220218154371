"""Pages: a document as HTML and Markdown is well formed, escaped and complete."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from jinja2 import UndefinedError

from ipl.display.document import (
    Block,
    Code,
    Document,
    Figure,
    Figures,
    Gallery,
    Heading,
    Paragraph,
    Picture,
    Piece,
    Prompts,
    QuestionAnswer,
    Section,
    Thumb,
)
from ipl.display.markdown import as_markdown, code_span
from ipl.display.page import as_html, render
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from tests.helpers.page_check import Page, check_page

NASTY = '<script>alert("x")</script> & \'*_|'


def _document() -> Document:
    rows = Table(
        ("name", "value"), [[NASTY, "1.5"], ["b", "\N{MINUS SIGN}2 %"]], caption="Caption " + NASTY
    )
    drawing = bars([Bar(NASTY, 1.0, "1")], NASTY)
    figure = Figure("Figure " + NASTY, drawing, rows)
    thumb = Thumb("data:image/jpeg;base64,AA==", NASTY, NASTY)
    blocks = (
        Paragraph(NASTY),
        Paragraph(NASTY, "warning"),
        Heading(NASTY),
        Code(NASTY),
        rows,
        figure,
    )
    bare = Figure(NASTY, drawing, None)
    more = (Figures((figure, figure)), Figures((bare, bare), rows), Gallery(NASTY, (thumb,)))
    section = Section("one", NASTY, (*blocks, *more))
    pieces = (Piece("word", NASTY), Piece("text", "."))
    return Document(NASTY, NASTY, pieces, (NASTY,), (NASTY,), (section,), NASTY)


def test_a_page_is_well_formed_and_escapes_everything() -> None:
    page = check_page(as_html(_document()))
    assert "".join(page.text).count(NASTY) > 10
    assert page.of("img")[0]["alt"] == NASTY
    assert page.of("svg")[0]["aria-label"] == NASTY
    assert len(page.of("details")) == 4


def test_a_section_with_a_summary_is_folded_and_its_content_can_be_linked_to() -> None:
    text, heading = Paragraph("Inside."), Heading("A heading")
    folded = Section("one", "One", (text, heading, text), "What is inside.")
    answer = QuestionAnswer("Is it " + NASTY, "Yes.")
    document = Document("t", "s", (), (), (), (folded,), "f", (answer,), Table(("a",), [["b"]]))
    page = check_page(as_html(document))
    assert [each.get("class") for each in page.of("details")] == ["fold"]
    assert not page.of("nav")  # the summaries are the contents
    html = as_html(document)
    assert html.index("<summary>") < html.index("What is inside.") < html.index("</summary>")
    assert html.index("</summary>") < html.index('id="one"') < html.index("Inside.</p>")
    assert "Is it " + NASTY in "".join(page.text)
    both = Document("t", "s", (), (), (), (folded, Section("two", "Two", (text,))), "f")
    assert len(check_page(as_html(both)).of("nav")) == 1
    assert "**Is it " in as_markdown(document)


def test_every_kind_of_block_is_written() -> None:
    table = Table(("name", "value"), [["a", "1"]], caption="The caption")
    figure = Figure("The figure", bars([Bar("a", 1.0, "1")], "A bar"), None)
    gallery = Gallery("The gallery", (Thumb("data:image/png;base64,", "a", "b"),))
    blocks = {
        Paragraph: (Paragraph("The paragraph"), "The paragraph"),
        Code: (Code("ipl fit"), "fit"),
        Table: (table, "The caption"),
        Figure: (figure, "The figure"),
        Figures: (Figures((figure,), table), "The caption"),
        Picture: (Picture("The picture", "data:image/svg+xml,", 400, "a", table), "The caption"),
        Gallery: (gallery, "The gallery"),
        Heading: (Heading("The heading"), "The heading"),
        Prompts: (Prompts((("seed 1", (Piece("word", "furry"),)),)), "furry"),
    }
    assert set(blocks) == set(get_args(Block))
    for kind, (block, text) in blocks.items():
        document = Document("t", "s", (), (), (), (Section("one", "One", (block,)),), "f")
        assert text in "".join(Page(as_html(document)).text), kind
        if kind is not Figure:  # Markdown has no drawings
            assert text in as_markdown(document), kind


def test_markdown_has_the_same_cells() -> None:
    text = as_markdown(_document())
    assert "<script>" not in re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert text.count("| b | \N{MINUS SIGN}2 % |") == 5
    lines_of_table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in lines_of_table} == {3}
    assert "| --- | ---: |" in text


def test_code_in_markdown_cannot_end_its_block() -> None:
    code = Code("ipl fit 'a\n```\n<script>'")
    document = Document("t", "s", (), (), (), (Section("one", "One", (code,)),), "f")
    assert "````\nipl fit 'a\n```\n<script>'\n````\n" in as_markdown(document)
    assert [code_span(text) for text in ("a b", "a\n`b``c`")] == ["`a b`", "``` a `b``c` ```"]


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast_of_text_is_enough(scheme: int) -> None:
    style = as_html(_document()).split("<style>")[1].split(":root {")[1 + scheme].split("}")[0]
    colours = dict(
        part.strip().removeprefix("--").split(": ") for part in style.split(";") if part.strip()
    )
    for ink, papers in {
        "ink": ("paper", "wash", "note", "warn"),
        "soft-ink": ("paper", "wash"),
        "c1": ("paper", "wash"),
        "c2": ("paper",),
    }.items():
        for paper in papers:
            light, dark = sorted((_luminance(colours[ink]), _luminance(colours[paper])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_templates_escape_texts_and_miss_no_value() -> None:
    assert render("<p>{{ text }}</p>", text="a < b") == "<p>a &lt; b</p>"
    with pytest.raises(UndefinedError, match="text"):
        render("<p>{{ text }}</p>")
