"""Plots as files: what is written in them, once each, and their sizes."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
from PIL import Image

from ipl.display.plot_files import (
    ErrorBarLine,
    Interval,
    Panel,
    plot_intervals,
    plot_panels,
)


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
