"""Plots: bars, lines, strips of dots and confusion for pages, panels and intervals as files.

All are drawn by matplotlib in one style. In a page they are inline SVG whose colours are the
variables of its style sheet, light or dark, and as wide as a phone's page, so that their letters
stay readable there. Files are SVG and PNG.
"""

from __future__ import annotations

import math
import re
import textwrap
import threading
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

GREY, INK, SOFT_INK, PALE = "#8b949e", "#1c2126", "#545d66", "#d5dae0"
# Grey and four tones, which can be told apart with every common kind of colour blindness, as each
# pair of them differs in lightness or has dots of its own; two more for files.
TONES = (GREY, "#0065a3", "#b84a00", "#00734f", "#96407a", "#56b4e9", "#e69f00")
MARKERS, DASHES = ("o", "o", "s", "^", "D"), ("-", "-", (0, (4, 2)), (0, (1, 2)), "-.")
VARIABLES = dict(zip(TONES, ("c0", "c1", "c2", "c3", "c4"), strict=False))
VARIABLES |= {INK: "ink", SOFT_INK: "soft-ink", PALE: "line"}

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
class Bar:
    """One bar; `tone` 1 to 4 is its colour, 0 grey."""

    label: str
    value: float
    shown: str
    tone: int = 1


@dataclass(frozen=True)
class Series:
    """One line; a point without a y is left out."""

    name: str
    points: tuple[tuple[float, float | None], ...]
    tone: int = 1


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
    joined: bool = True  # by a line between the dots
    has_dots: bool = True  # False: a level


@dataclass(frozen=True)
class Panel:
    """One panel of a plot file: its lines, and what is written below the x axis."""

    title: str
    lines: tuple[ErrorBarLine, ...]
    x_ticks: tuple[tuple[float, str], ...]
    tick_size: int = 9
    zero: bool = False  # whether 0 on the y axis is marked


@dataclass(frozen=True)
class Interval:
    """A difference with its interval, if it has one, in a plot of intervals."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


# -- in a page ------------------------------------------------------------------------------------


def bars(rows: Sequence[Bar], alt: str, scale_end: float = 0.0) -> str:
    """Returns horizontal bars with their labels above them; values may be negative.

    The scale reaches at least to `scale_end`: drawings that share it can be compared.
    """
    low = min([0.0, *(row.value for row in rows)])
    high = max([scale_end, 0.0, *(row.value for row in rows)])
    unit = (WIDTH - 90) / ((high - low) or 1.0)  # numbers stand to the right of all bars
    with _page_figure(36 * max(len(rows), 1)) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(low * unit, low * unit + WIDTH))
        axes.set(ylim=(len(rows) or 1, 0))
        axes.set_axis_off()
        for y, row in enumerate(rows):
            axes.barh(y + 0.65, row.value * unit, 0.28, color=TONES[row.tone])
            axes.plot([0, 0], [y + 0.45, y + 0.85], color=SOFT_INK, linewidth=1)
            axes.text(low * unit, y + 0.36, row.label)
            end = low * unit + WIDTH
            axes.text(end, y + 0.65, row.shown, ha="right", va="center", weight="bold")
        return _inline(figure, alt)


def lines(
    series: Sequence[Series],
    alt: str,
    x_name: str,
    y_name: str,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    diagonal: bool = False,
    x_ticks: Sequence[tuple[float, str]] | None = None,
    arrivals: Sequence[tuple[float, str]] = (),
) -> str:
    """Returns lines with dots over two axes, and a legend if there are several.

    Each arrival (x, name) is marked by a vertical line with its name.
    """
    with _page_figure(260 + 18 * (len(series) > 1) * len(series)) as figure:
        axes = figure.subplots()
        for line in series:
            points = [(x, y) for x, y in line.points if y is not None]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=TONES[line.tone],
                linestyle=DASHES[line.tone],
                linewidth=2,
                marker=MARKERS[line.tone] if len(points) <= 40 else "",
                markersize=7,
                label=line.name,
            )
        axes.margins(0.06)
        axes.set(xlabel=x_name, ylabel=y_name)
        if x_range:
            axes.set_xlim(x_range[0], x_range[1])
        if y_range:
            axes.set_ylim(y_range[0], y_range[1])
        if x_ticks is not None:
            axes.set_xticks([x for x, _ in x_ticks], [name for _, name in x_ticks])
        if diagonal:
            axes.plot(axes.get_xlim(), axes.get_ylim(), color=SOFT_INK, linestyle=":")
        if arrivals:
            _mark_arrivals(axes, arrivals)
        axes.grid(axis="y")
        _add_legend(figure, [axes], columns=1)
        return _inline(figure, alt)


def strips(groups: Sequence[Strip], alt: str, name: str) -> str:
    """Returns for each group a line of grey dots with the marked one in colour."""
    with _page_figure(50 + 48 * len(groups)) as figure:
        axes = figure.subplots()
        for y, group in enumerate(groups):
            dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "clip_on": False}
            axes.axhline(y, color=PALE)
            axes.plot(
                group.values, [y] * len(group.values), color=GREY, alpha=0.55, markersize=10, **dots
            )
            axes.plot(group.marked, y, color=TONES[1], markersize=14, **dots)
            axes.text(0, y - 0.3, group.label, transform=axes.get_yaxis_transform())
        axes.set(xlabel=name, yticks=[], ylim=(len(groups) - 0.7, -0.7))
        axes.spines["bottom"].set_visible(False)
        axes.margins(x=0.06)
        return _inline(figure, alt)


def heat(counts: Sequence[Sequence[int]], names: Sequence[str], alt: str) -> str:
    """Returns a square of cells, stronger the larger their share; rows are true classes."""
    size = len(names)
    short = [name if len(name) <= 16 else name[:15] + "…" for name in names]
    cells, colours = [], []
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count:
                cells.append(Rectangle((j, i), 0.96, 0.96))
                share = 0.12 + 0.88 * count / sum(row)
                colours.append(to_rgba(TONES[1 if i == j else 2], share))
    with _page_figure(WIDTH) as figure:
        axes = figure.subplots()
        axes.add_collection(PatchCollection(cells, facecolors=colours))
        axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal")
        middles, font = [each + 0.5 for each in range(size)], min(12.0, max(6.0, 260 / size))
        axes.set_xticks(middles, short, rotation=90, fontsize=font, color=INK)
        axes.set_yticks(middles, short, fontsize=font, color=INK)
        axes.tick_params(labeltop=True, labelbottom=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=PALE)
        return _inline(figure, alt)


def _mark_arrivals(axes: Axes, arrivals: Sequence[tuple[float, str]]) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.25 * (high - low))  # their names stand above the lines
    first, last = axes.get_xlim()
    for number, (x, name) in enumerate(arrivals):
        axes.axvline(x, color=SOFT_INK, linestyle=":")
        late = x > first + 0.75 * (last - first)  # no room for the name to the right of the line
        axes.annotate(
            name,
            (x, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4 if late else 4, -10 - 15 * (number % 3)),
            textcoords="offset points",
            ha="right" if late else "left",
            weight="bold",
        )


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
    """Returns a figure as an SVG element that takes its colours and letters from its page."""
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with matplotlib.rc_context({"svg.hashsalt": f"ipl {alt}"}):  # no id is in two plots of a page
        svg = _saved(figure, "svg").decode()
    svg = svg[re.search(r"<svg[^>]*>", svg).end() :]  # type: ignore[union-attr]
    svg = re.sub(r"<(metadata|style|clipPath).*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="[^"]*"|(?<=<g) id="[^"]*"', "", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    svg = re.sub("(?<=: )#[0-9a-f]{6}", lambda colour: _variable(colour[0]), svg)
    return (
        f'<svg viewBox="0 0 {WIDTH} {figure.get_figheight() / POINT:.0f}" role="img" '
        f'aria-label="{escape(alt)}" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">{svg}'
    )


def _variable(colour: str) -> str:
    """Returns the variable of the style sheet for one of our colours."""
    return f"var(--{VARIABLES[colour]})" if colour in VARIABLES else colour


# -- as files -------------------------------------------------------------------------------------


def plot_panels(panels: Sequence[Panel], title: str, x_name: str, y_name: str) -> dict[str, bytes]:
    """Returns panels side by side over one legend, as the bytes of an "svg" and of a "png" file.

    The names of the axes are written once for all panels.
    """
    with _file_figure() as figure:
        columns = 2 if len(panels) == 4 else min(len(panels), PANELS_PER_ROW)
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
        grid[-1][min(columns // 2, last_row - 1)].set_xlabel(x_name)
        _add_legend(figure, grid.flat, columns=4)
        return _files(figure, title)


def plot_intervals(
    groups: Sequence[tuple[str, Sequence[Interval]]], title: str, x_name: str
) -> dict[str, bytes]:
    """Returns a forest plot, as the bytes of an "svg" and of a "png" file.

    The groups stand from top to bottom, each under its name. The same label has the same colour in
    every group.
    """
    labels = list(dict.fromkeys(interval.label for _, group in groups for interval in group))
    rows = sum(len(group) + 1 for _, group in groups)
    with _file_figure() as figure:
        figure.set_size_inches(6.6, 1.0 + 0.26 * rows)
        axes = figure.subplots()
        texts: list[str] = []  # from top to bottom
        for name, group in groups:
            texts.append(name)
            for interval in group:
                colour = _colour(labels.index(interval.label))
                _draw_interval(axes, interval, len(texts), colour)
                texts.append(interval.label)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_ylim(len(texts) - 0.4, -0.6)
        axes.set_yticks(range(len(texts)), texts)
        for text in axes.get_yticklabels():
            text.set_fontweight("normal" if text.get_text() in labels else "bold")
        axes.grid(axis="x")
        axes.margins(x=0.1)
        axes.set_xlabel(x_name)
        return _files(figure, title)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draws the means of each line with bars, or a band, of one deviation."""
    for line in panel.lines:
        if not line.points:
            continue
        style: dict[str, Any] = {
            "color": _colour(line.colour),
            "label": line.label,
            "marker": "o",
            "markersize": 4.5,
            "linewidth": 1.6,
            "capsize": 3,
            "elinewidth": 1,
        }
        if line.pattern != "solid":
            style |= {"linestyle": line.pattern, "markerfacecolor": "white"}
        if not line.joined:
            style["linestyle"] = "none"
        if not line.has_dots:
            style |= {"marker": "none", "capsize": 0, "elinewidth": 0}
        x, means, deviations = zip(*line.points, strict=True)
        if line.joined and line.has_dots and len(x) > 1:  # a band reads better than many bars
            low, high = (
                [m + sign * d for m, d in zip(means, deviations, strict=True)] for sign in (-1, 1)
            )
            axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
            style |= {"capsize": 0, "elinewidth": 0}
        axes.errorbar(x, means, yerr=deviations, **style)
    if panel.zero:
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_title(panel.title, loc="left")
    axes.set_xticks([x for x, _ in panel.x_ticks], [text for _, text in panel.x_ticks])
    axes.tick_params(axis="x", labelsize=panel.tick_size)
    axes.margins(x=0.08, y=0.12)
    axes.grid(axis="y")


def _draw_interval(axes: Axes, interval: Interval, y: float, colour: str) -> None:
    """Draws a dot and its interval; a dot without an interval is hollow."""
    if interval.low is None or interval.high is None:
        axes.plot(interval.value, y, "o", color=colour, markerfacecolor="white", markersize=5)
        return
    axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.8)
    axes.plot(interval.value, y, "o", color=colour, markersize=5)


@contextmanager
def _file_figure() -> Iterator[Figure]:
    """Gives an empty figure to draw in; the same plot gives the same file."""
    with _style(**{"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "ipl"}):
        yield Figure(layout="constrained")


def _files(figure: Figure, title: str) -> dict[str, bytes]:
    """Returns a figure with its title, broken into lines as wide as it is, in every format."""
    wrapped = textwrap.fill(title, int(15 * figure.get_figwidth()))
    figure.suptitle(wrapped, x=0.01, ha="left", fontsize=9)
    return {file_format: _saved(figure, file_format) for file_format in ("svg", "png")}


def _saved(figure: Figure, file_format: str) -> bytes:
    buffer = BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _colour(number: int) -> str:
    return TONES[1 + number % (len(TONES) - 1)]


def _add_legend(figure: Figure, all_axes: Iterable[Axes], columns: int) -> None:
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
            ncols=min(columns, max(1, fitting)),
            frameon=False,
        )
