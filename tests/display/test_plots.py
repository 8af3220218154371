"""Plots: inline SVG that is well formed and to scale, and panels as files."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
from PIL import Image

from ipl.display import plots
from ipl.display.plots import (
    Bar,
    BarPanel,
    ErrorBarLine,
    Interval,
    Panel,
    Series,
    Strip,
    bars,
    heat,
    lines,
    plot_bars,
    plot_intervals,
    plot_panels,
    strips,
    ticks,
)
from ipl.support.errors import ConfigError
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


def test_a_name_that_arrives_late_stays_inside() -> None:
    line = [Series("a", ((1.0, 2.0), (2.0, 1.0)))]
    svg = lines(line, "x", "x", "y", arrivals=[(1.0, "early"), (2.0, "late")])
    anchors = {t: a["text-anchor"] for t in ("early", "late") for a in _texts(svg, t)}
    assert anchors == {"early": "start", "late": "end"}
    legend = bars([Bar("a", 1, "1", 2)], "x", legend=[("what orange is", 2)])
    assert len(Page(legend).of("rect")) == 2
    assert _texts(legend, "what orange is")


def _texts(svg: str, text: str) -> list[dict[str, str]]:
    """Returns the attributes of the texts with this content."""
    tags = re.findall(rf"<text ([^>]*)>{text}</text>", svg)
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', tag)) for tag in tags]


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


def _panel(title: str, labels: tuple[str, ...], joined: bool = True) -> Panel:
    error_bars = tuple(
        ErrorBarLine(
            label,
            ((0.0, 1.0 + index, 0.1), (1.0, 2.0, 0.0)),
            index,
            "dashed" if index else "solid",
            joined,
        )
        for index, label in enumerate(labels)
    )
    return Panel(title, error_bars, ((0.0, "zero"), (1.0, "one")))


def _svg_texts(svg: bytes) -> list[str]:
    return re.findall(r"<!-- (.*?) -->", svg.decode())


@pytest.mark.parametrize("joined", [True, False])
def test_panels_have_titles_ticks_axes_and_one_legend(joined: bool) -> None:
    panels = [_panel(title, ("plain", "words"), joined) for title in ("left", "right")]
    files = plot_panels(panels, "What it shows", "levels", "accuracy")
    assert set(files) == {"svg", "png"}
    texts = _svg_texts(files["svg"])
    for text in ("What it shows", "left", "right", "levels", "accuracy", "plain", "words"):
        assert texts.count(text) == 1, text
    assert texts.count("zero") == texts.count("one") == 2  # below each panel
    assert files["svg"] == plot_panels(panels, "What it shows", "levels", "accuracy")["svg"]
    image = Image.open(BytesIO(files["png"]))
    assert image.format == "PNG"
    assert image.width > image.height > 600


def test_a_single_line_needs_no_legend_and_an_empty_one_is_left_out() -> None:
    empty = Panel("p", (ErrorBarLine("gone", ()), *_panel("p", ("alone",)).lines), ((0.0, "zero"),))
    texts = _svg_texts(plot_panels([empty], "t", "x", "y")["svg"])
    assert "alone" not in texts
    assert "gone" not in texts


def test_many_panels_stand_in_rows_with_one_legend() -> None:
    def size(count: int) -> tuple[int, int]:
        panels = [_panel(f"panel {n}", ("plain",)) for n in range(count - 1)]
        panels.append(_panel("last", ("plain", "late")))  # a line that no other panel has
        files = plot_panels(panels, "t", "the x", "the y")
        texts = _svg_texts(files["svg"])
        assert (texts.count("plain"), texts.count("late"), texts.count("the x")) == (1, 1, 1)
        assert sum(text.startswith("panel ") for text in texts) == count - 1
        return Image.open(BytesIO(files["png"])).size

    (width, height), (wider, higher) = size(3), size(7)
    assert width == wider
    assert higher > 2 * height
    assert size(4)[0] < width  # two and two


def test_bars_and_intervals_as_files() -> None:
    panel = BarPanel("memory", (1.0, None), ("one", "none"), (2.0, None), ((3.0, "theirs"),))
    other = BarPanel("time", (1.0, 2.0), ("", ""), references=((4.0, "theirs too"),), end=10.0)
    texts = _svg_texts(plot_bars(("a", "b"), (panel, other), "Bars")["svg"])
    for text in ("Bars", "memory", "time", "a", "b", "one", "none", "theirs", "theirs too"):
        assert texts.count(text) == 1, text
    groups = [("CoOp", [Interval("x", 1.0, 0.5, 2.0), Interval("y", -1.0)])]
    files = plot_intervals(groups, "Intervals", "points")
    texts = _svg_texts(files["svg"])
    assert {"CoOp", "x", "y", "Intervals", "points"} <= set(texts)
    assert Image.open(BytesIO(files["png"])).format == "PNG"


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ipl\[plots\]', or leave it out"):
        plots.check_matplotlib()
    with pytest.raises(ConfigError, match="needs matplotlib"):
        plot_panels([], "t", "x", "y")
