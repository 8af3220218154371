"""Pages and Markdown of a document: well formed, escaped, the same facts."""

from __future__ import annotations

import re

import pytest

from ipl.display.document import (
    Code,
    Document,
    Figure,
    Figures,
    Gallery,
    Heading,
    Paragraph,
    Piece,
    Section,
    Table,
    Thumb,
    make_table,
)
from ipl.display.html import as_html
from ipl.display.markdown import as_markdown
from ipl.display.plots import Bar, Series, Strip, bars, heat, lines, strips, ticks
from tests.helpers.page_check import Page, check_page

NASTY = '<script>alert("x")</script> & \'*_|'


def _document() -> Document:
    rows = make_table(
        "Caption " + NASTY, ("name", "value"), [[NASTY, "1.5"], ["b", "\N{MINUS SIGN}2 %"]]
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


def test_a_heading_stays_with_what_follows_it() -> None:
    heading, text = Heading("A heading"), Paragraph("What follows.")
    several = ((text, heading, text, text), (heading, heading, text), (text, heading), ())
    for blocks, kept in zip(several, (2, 1, 1, 0), strict=True):  # the first under each heading
        section = Section("one", "One", blocks)
        page = as_html(Document("t", "s", (), (), (), (section,), "f"))
        check_page(page)
        parts = page.split('<div class="together">')[1:]
        assert "<h2" in parts[0]
        assert all("</div>" in part for part in parts)
        inside = "".join(part.split("</div>")[0] for part in parts)
        assert inside.count("<h3>") == blocks.count(heading)
        assert inside.count("What follows.") == kept


def test_light_dark_and_paper() -> None:
    text = as_html(_document())
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text
    assert "@page { margin: 1.5cm; }" in text
    assert "prefers-color-scheme" not in text.split("@media print")[1]


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


def test_markdown_has_the_same_cells() -> None:
    text = as_markdown(_document())
    assert all(line.startswith("    ") for line in text.splitlines() if "<script>" in line)
    assert text.count("| b | \N{MINUS SIGN}2 % |") == 5
    lines_of_table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in lines_of_table} == {3}
    assert "| --- | ---: |" in text


def test_a_crooked_table_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 in 2"):
        Table("t", ("a", "b"), (("1",),))


def test_drawings_are_well_formed_at_their_edges() -> None:
    drawn = [
        bars([], "none"),
        bars([Bar("a", -1.0, "-1"), Bar("b", 2.0, "2", 0)], "two"),
        lines([Series("a", ((0.0, 1.0),))], "one point", "x", "y"),
        lines([Series("a", ((0.0, None), (1.0, 2.0))), Series("b", ())], "gaps", "x", "y"),
        strips([Strip("a", (), 1.0)], "alone", "x"),
        strips([Strip("a", (1.0, 1.0), 1.0)], "same", "x"),
        heat([[2, 0], [1, 1]], ("a" * 40, "<b>"), "two"),
    ]
    for svg in drawn:
        page = Page(svg)
        assert "nan" not in svg
        assert page.of("svg")[0]["aria-label"]


def test_a_name_that_arrives_late_stays_inside() -> None:
    line = [Series("a", ((1.0, 2.0), (2.0, 1.0)))]
    svg = lines(line, "x", "x", "y", arrivals=[(1.0, "early"), (2.0, "late")])
    anchors = {t: a["text-anchor"] for t in ("early", "late") for a in _texts(svg, t)}
    assert anchors == {"early": "start", "late": "end"}
    legend = bars([Bar("a", 1, "1", 2)], "x", legend=[("what orange is", 2)])
    assert len(Page(legend).of("rect")) == 2
    assert _texts(legend, "what orange is")


def _texts(svg: str, said: str) -> list[dict[str, str]]:
    """Returns the attributes of the texts that say this."""
    found = re.findall(rf"<text ([^>]*)>{said}</text>", svg)
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', one)) for one in found]


def test_bars_are_as_long_as_their_values() -> None:
    widths = [
        float(r["width"] or 0)
        for r in Page(bars([Bar("a", 1, "1"), Bar("b", 4, "4")], "x")).of("rect")
    ]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.2)
    shared = Page(bars([Bar("a", 1, "1")], "x", most=4)).of("rect")
    assert float(shared[0]["width"] or 0) == pytest.approx(widths[0], abs=0.1)


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(2.9, 6.4) == [3, 4, 5, 6]
    assert ticks(-0.02, 0.013) == [-0.02, -0.01, 0.0, 0.01]
    assert ticks(3, 3) == [3]
