"""Pages: a document as HTML is well formed, escaped and complete."""

from __future__ import annotations

from typing import get_args

from ipl.display.document import (
    Block,
    Code,
    Document,
    Figure,
    Gallery,
    Heading,
    Paragraph,
    Piece,
    Section,
    Thumb,
)
from ipl.display.page import as_html
from ipl.display.plots import line
from ipl.display.table import Table
from tests.helpers.page_check import check_page

NASTY = '<script>alert("x")</script> & \'*_|'


def _document() -> Document:
    rows = Table(
        ("name", "value"), [[NASTY, "1.5"], ["b", "\N{MINUS SIGN}2 %"]], caption="Caption " + NASTY
    )
    drawing = line([(0.0, 1.0)], NASTY, "x", "y")
    figure = Figure("Figure " + NASTY, drawing)
    thumb = Thumb("data:image/jpeg;base64,AA==", NASTY, NASTY)
    blocks = (
        Paragraph(NASTY),
        Paragraph(NASTY, "warning"),
        Heading(NASTY),
        Code(NASTY),
        rows,
        figure,
    )
    pieces = (Piece("word", NASTY), Piece("text", "."))
    section = Section("one", NASTY, (*blocks, Gallery(NASTY, (thumb,))), NASTY)
    return Document(NASTY, NASTY, pieces, (NASTY,), (NASTY,), (section,), NASTY)


def test_a_page_is_well_formed_and_escapes_everything() -> None:
    document = _document()
    assert {type(block) for block in document.sections[0].blocks} == {*get_args(Block)}
    page = check_page(as_html(document))
    assert "".join(page.text).count(NASTY) > 15
    assert page.of("img")[0]["alt"] == NASTY
    assert page.of("svg")[0]["aria-label"] == NASTY


def test_a_section_is_folded_and_its_content_can_be_linked_to() -> None:
    text, heading = Paragraph("Inside."), Heading("A heading")
    folded = Section("one", "One", (text, heading, text), "What is inside.")
    answers = {"Is it " + NASTY: "Yes."}
    document = Document("t", "s", (), (), (), (folded,), "f", answers, Table(("a",), [["b"]]))
    page = check_page(as_html(document))
    assert [each.get("class") for each in page.of("details")] == ["fold"]
    html = as_html(document)
    assert html.index("<summary>") < html.index("What is inside.") < html.index("</summary>")
    assert html.index("</summary>") < html.index('id="one"') < html.index("Inside.</p>")
    assert "Is it " + NASTY in "".join(page.text)
