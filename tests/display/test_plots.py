"""Plots in a page: inline SVG that is well formed and to scale."""

from __future__ import annotations

import pytest

from ipl.display.plots import Bar, Series, Strip, bars, heat, lines, strips, ticks
from tests.helpers.page_check import Page


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


def test_bars_are_as_long_as_their_values() -> None:
    widths = [
        float(r["width"] or 0)
        for r in Page(bars([Bar("a", 1, "1"), Bar("b", 4, "4")], "x")).of("rect")
    ]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.2)
    shared = Page(bars([Bar("a", 1, "1")], "x", scale_end=4)).of("rect")
    assert float(shared[0]["width"] or 0) == pytest.approx(widths[0], abs=0.1)


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(2.9, 6.4) == [3, 4, 5, 6]
    assert ticks(-0.02, 0.013) == [-0.02, -0.01, 0.0, 0.01]
    assert ticks(3, 3) == [3]
