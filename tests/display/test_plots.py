"""Plots: inline SVG that is well formed and to scale, and files with everything in them once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from PIL import Image

from ipl.display.plots import (
    Bar,
    ErrorBarLine,
    Interval,
    Panel,
    Series,
    Strip,
    bars,
    heat,
    lines,
    plot_intervals,
    plot_panels,
    strips,
)
from tests.helpers.page_check import Page


def test_drawings_are_well_formed_at_their_edges() -> None:
    drawn = {
        "none": bars([], "none"),
        "two": bars([Bar("a", -1.0, "-1"), Bar("b", 2.0, "2", 0)], "two"),
        "one point": lines([Series("a", ((0.0, 1.0),))], "one point", "x", "y"),
        "gaps": lines([Series("a", ((0.0, None), (1.0, 2.0))), Series("b", ())], "gaps", "x", "y"),
        "alone": strips([Strip("a", (), 1.0)], "alone", "x"),
        "same": strips([Strip("a", (1.0, 1.0), 1.0)], "same", "x"),
        'a "heat"': heat([[2, 0], [1, 1]], ("a" * 40, "<b> $x$"), 'a "heat"'),
    }
    ids = []
    for alt, svg in drawn.items():
        page = Page(svg)
        assert "nan" not in svg
        assert "url(" not in svg
        assert page.of("svg")[0]["aria-label"] == alt
        ids += [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)  # as all may stand on one page
    assert "<b> $x$" in "".join(Page(drawn['a "heat"']).text)
    assert not re.search(": #[0-9a-f]{6}", "".join(drawn.values()))  # the page has the colours


def test_bars_are_as_long_as_their_values() -> None:
    def lengths(values: list[float], scale_end: float = 0.0) -> list[float]:
        svg = bars([Bar("a", value, "") for value in values], "x", scale_end)
        paths = re.findall(r'd="([^"]*)"\s*style="fill: var\(--c1\)', svg)
        found = [[float(x) for x in re.findall(r"[ML] ([\d.]+)", path)] for path in paths]
        return [max(each) - min(each) for each in found]

    shorter, longer = lengths([1, 4])
    assert longer == pytest.approx(4 * shorter, abs=0.2)
    assert lengths([1], scale_end=4) == pytest.approx([shorter], abs=0.1)


def test_threads_draw_in_one_style() -> None:
    with ThreadPoolExecutor(4) as threads:
        drawn = set(threads.map(lambda _: bars([Bar("a", 1.0, "1")], "x"), range(12)))
    assert len(drawn) == 1


def test_arrivals_are_named() -> None:
    points = tuple((float(x), 3.0 - x) for x in range(3))
    arrivals = [(0.0, "a<b"), (1.0, "wall")]
    svg = lines([Series("loss", points)], "A loss.", "epoch", "loss", arrivals=arrivals)
    assert {"a<b", "wall", "epoch", "loss"} <= {text.strip() for text in Page(svg).text}


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


def test_intervals_as_files() -> None:
    groups = [("CoOp", [Interval("x", 1.0, 0.5, 2.0), Interval("y", -1.0)])]
    files = plot_intervals(groups, "Intervals", "points")
    texts = _svg_texts(files["svg"])
    assert {"CoOp", "x", "y", "Intervals", "points"} <= set(texts)
    assert Image.open(BytesIO(files["png"])).format == "PNG"
