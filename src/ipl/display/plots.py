"""Plots: lines, strips of dots and confusion for pages, panels as files.

All are drawn by matplotlib in one style. In a page they are inline SVG whose colours are the
variables of its style sheet, light or dark, and as wide as a phone's page, so that their letters
stay readable there. Files are SVG and PNG.
"""

from __future__ import annotations

import math
import re
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ipl.support.errors import printable

GREY, INK, SOFT_INK, PALE = "#8b949e", "#1c2126", "#545d66", "#d5dae0"
# They can be told apart with every common kind of colour blindness, as each pair of the first four
# differs in lightness.
TONES = ("#0065a3", "#b84a00", "#00734f", "#96407a", "#56b4e9", "#e69f00")
BLUE, RED = TONES[:2]
# The colours of the page's style sheet, light or dark.
VARIABLES = {
    GREY: "var(--c0)",
    BLUE: "var(--c1)",
    RED: "var(--c2)",
    INK: "var(--ink)",
    SOFT_INK: "var(--soft-ink)",
    PALE: "var(--line)",
}

POINT = 1 / 72  # in inches; an SVG of matplotlib has a unit for each point
WIDTH = 420
PANELS_PER_ROW = 3
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT_INK,
    "axes.labelcolor": SOFT_INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "grid.color": PALE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "text.parse_math": False,  # a class may be called $5
    "xtick.bottom": False,
    "xtick.labelcolor": SOFT_INK,
    "ytick.labelcolor": SOFT_INK,
    "ytick.left": False,
}
_drawing = threading.Lock()


@dataclass(frozen=True)
class Strip:
    """Dots on a line, and one that is marked."""

    label: str
    values: tuple[float, ...]
    marked: float


@dataclass(frozen=True)
class ErrorBarLine:
    """A line of a panel: points (x, mean, deviation), a colour by number, and how it is drawn."""

    label: str
    points: tuple[tuple[float, float, float], ...]
    colour: int = 0
    pattern: str = "solid"  # or dashed, dotted, dashdot: with hollow dots


@dataclass(frozen=True)
class Panel:
    """One panel of a plot file: its lines, and what is written below the x axis."""

    title: str
    lines: tuple[ErrorBarLine, ...]
    x_ticks: tuple[tuple[float, str], ...]


# -- in a page ------------------------------------------------------------------------------------


def line(
    points: Sequence[tuple[float, float]],
    alt: str,
    x_name: str,
    y_name: str,
    x_ticks: Sequence[tuple[float, str]] | None = None,
    arrivals: Sequence[tuple[float, str]] = (),
) -> str:
    """A line with dots over two axes.

    Each arrival (x, name) is marked by a vertical line with its name.
    """
    with _page_figure(260) as figure:
        axes = figure.subplots()
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=BLUE,
            linewidth=2,
            marker="o" if len(points) <= 40 else "",
            markersize=7,
        )
        axes.margins(0.06)
        axes.set(xlabel=x_name, ylabel=y_name)
        if x_ticks is not None:
            axes.set_xticks([x for x, _ in x_ticks], [name for _, name in x_ticks])
        for x, name in arrivals:
            axes.axvline(x, color=SOFT_INK, linestyle=":")
            at_top = axes.get_xaxis_transform()
            axes.text(x, 1, f"{name} ", transform=at_top, rotation=90, ha="right", va="top")
        axes.grid(axis="y")
        return _inline(figure, alt)


def strips(groups: Sequence[Strip], alt: str, name: str) -> str:
    """For each group a line of grey dots with the marked one in colour."""
    with _page_figure(50 + 48 * len(groups)) as figure:
        axes = figure.subplots()
        for y, group in enumerate(groups):
            dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "clip_on": False}
            axes.axhline(y, color=PALE)
            axes.plot(
                group.values, [y] * len(group.values), color=GREY, alpha=0.55, markersize=10, **dots
            )
            axes.plot(group.marked, y, color=BLUE, markersize=14, **dots)
            axes.text(0, y - 0.3, group.label, transform=axes.get_yaxis_transform())
        axes.set(xlabel=name, yticks=[], ylim=(len(groups) - 0.7, -0.7))
        axes.spines["bottom"].set_visible(False)
        axes.margins(x=0.06)
        return _inline(figure, alt)


def heat(counts: Sequence[Sequence[int]], names: Sequence[str], alt: str) -> str:
    """A square of cells with counts, stronger the larger their share; rows are true classes."""
    size = len(names)
    short = [name if len(name) <= 16 else name[:15] + "…" for name in names]
    cells, colours, texts = [], [], []
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count:
                cells.append(Rectangle((j, i), 0.96, 0.96))
                share = 0.08 + 0.42 * count / sum(row)  # pale enough for the counts
                colours.append(to_rgba(BLUE if i == j else RED, share))
                texts.append((j + 0.48, i + 0.48, str(count)))
    with _page_figure(WIDTH) as figure:
        axes = figure.subplots()
        axes.add_collection(PatchCollection(cells, facecolors=colours))
        axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal")
        middles, font = [each + 0.5 for each in range(size)], min(12.0, 200 / size)
        for x, y, text in texts:
            axes.text(x, y, text, ha="center", va="center", fontsize=font)
        axes.set_xticks(middles, short, rotation=90, fontsize=font, color=INK)
        axes.set_yticks(middles, short, fontsize=font, color=INK)
        axes.tick_params(labeltop=True, labelbottom=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=PALE)
        drawn = _inline(figure, alt)
    # Many classes are drawn larger than other figures of a page, so that counts can be read.
    return drawn.replace("<svg ", f'<svg style="max-width: {max(30.0, 1.6 * size):g}rem" ', 1)


@contextmanager
def _style(**settings: Any) -> Iterator[None]:
    """Draws what is drawn in its block in our style; matplotlib has one style for all threads."""
    with _drawing, matplotlib.rc_context(STYLE | settings):
        yield


@contextmanager
def _page_figure(height: float) -> Iterator[Figure]:
    """Gives an empty figure as wide as a phone's page."""
    with _style(**{"font.size": 12, "svg.fonttype": "none"}):
        yield Figure((WIDTH * POINT, height * POINT), layout="constrained", frameon=False)


def _inline(figure: Figure, alt: str) -> str:
    """A figure as an SVG element that takes its colours and letters from its page."""
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with matplotlib.rc_context({"svg.hashsalt": f"ipl {alt}"}):  # no id is in two plots of a page
        svg = _saved(figure, "svg").decode()
    svg = svg[re.search(r"<svg[^>]*>", svg).end() :]  # type: ignore[union-attr]
    svg = re.sub(r"<(metadata|style|clipPath).*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="[^"]*"|(?<=<g) id="[^"]*"', "", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    svg = re.sub("(?<=: )#[0-9a-f]{6}", lambda c: VARIABLES.get(c[0], c[0]), svg)
    return (
        f'<svg viewBox="0 0 {WIDTH} {figure.get_figheight() / POINT:.0f}" role="img" '
        f'aria-label="{escape(alt)}" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">{svg}'
    )


# -- as files -------------------------------------------------------------------------------------


def plot_panels(panels: Sequence[Panel], title: str, x_name: str, y_name: str) -> dict[str, bytes]:
    """Panels side by side over one legend, as the bytes of an "svg" and of a "png" file.

    The names of the axes are written once for all panels.
    """
    with _style(**{"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "ipl"}):
        figure = Figure(layout="constrained")
        columns = min(len(panels), PANELS_PER_ROW)
        rows = math.ceil(len(panels) / columns)
        width = 3.1 * columns + 0.4 if columns > 1 else 4.6
        figure.set_size_inches(width, 0.5 + 2.8 * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for row in grid:
            row[0].set_ylabel(y_name)
        last_row = len(panels) - columns * (rows - 1)
        grid[-1][(last_row - 1) // 2].set_xlabel(x_name)
        _add_legend(figure, grid.flat)
        # The title is broken into lines as wide as the figure.
        wrapped = textwrap.fill(title, int(15 * figure.get_figwidth()))
        figure.suptitle(wrapped, x=0.01, ha="left", fontsize=9)
        return {file_format: _saved(figure, file_format) for file_format in ("svg", "png")}


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draws the means of each line, with bars of one deviation."""
    for line in panel.lines:
        if not line.points:
            continue
        x, means, deviations = zip(*line.points, strict=True)
        colour = TONES[line.colour % len(TONES)]
        axes.errorbar(
            x,
            means,
            deviations,
            color=colour,
            label=line.label,
            linewidth=1.6,
            linestyle=line.pattern,
            marker="o",
            markersize=4.5,
            markerfacecolor=colour if line.pattern == "solid" else "white",
            capsize=3,
            elinewidth=1,
        )
    axes.set_title(panel.title, loc="left")
    axes.set_xticks([x for x, _ in panel.x_ticks], [text for _, text in panel.x_ticks])
    axes.margins(x=0.08, y=0.12)
    axes.grid(axis="y")


def _saved(figure: Figure, file_format: str) -> bytes:
    buffer = BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names of classes in any script
        figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
    data = buffer.getvalue()
    return printable(data.decode()).encode() if file_format == "svg" else data


def _add_legend(figure: Figure, all_axes: Iterable[Axes]) -> None:
    """Adds one legend for all axes below them, unless there is only one line to name."""
    handles: dict[Any, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        fitting = int(15 * figure.get_figwidth() / (max(map(len, handles)) + 6))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(4, max(1, fitting)),
            frameon=False,
        )
