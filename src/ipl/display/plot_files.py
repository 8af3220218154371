"""Plots as files: lines and intervals as SVG and PNG, drawn with matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FILE_FORMATS = ("svg", "png")
# Can be told apart with every common kind of colour blindness (Okabe and Ito).
FILE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, PALE = "#333333", "#DDDDDD"
PANELS_PER_ROW = 3
FILE_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "ipl",  # the same plot gives the same file
}


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


def plot_panels(panels: Sequence[Panel], title: str, x_name: str, y_name: str) -> dict[str, bytes]:
    """Returns panels side by side over one legend, as the bytes of an SVG and of a PNG file.

    Parameters
    ----------
    panels : sequence of Panel
        The panels from left to right.
    title : str
        What the plot shows; it is broken into lines as wide as the plot.
    x_name, y_name : str
        What the axes show, written once for all panels.

    Returns
    -------
    dict of str to bytes
        The files by format, "svg" and "png". The same plot gives the same SVG file.
    """
    with _new_figure() as figure:
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
        _add_legend(figure, grid.flat)
        return _save(figure, title)


def plot_intervals(
    groups: Sequence[tuple[str, Sequence[Interval]]], title: str, x_name: str
) -> dict[str, bytes]:
    """Returns a forest plot, as the bytes of an SVG and of a PNG file.

    Parameters
    ----------
    groups : sequence of (str, sequence of Interval)
        The differences under the name of what they are about, from top to bottom. The same
        label has the same colour in every group.
    title : str
        What the plot shows.
    x_name : str
        What the differences are.

    Returns
    -------
    dict of str to bytes
        The files by format, "svg" and "png".
    """
    labels = list(dict.fromkeys(interval.label for _, group in groups for interval in group))
    lines = sum(len(group) + 1 for _, group in groups)
    with _new_figure() as figure:
        figure.set_size_inches(6.6, 1.0 + 0.26 * lines)
        axes = figure.subplots()
        texts: list[str] = []  # from top to bottom
        for name, group in groups:
            texts.append(name)
            for interval in group:
                colour = FILE_COLOURS[labels.index(interval.label) % len(FILE_COLOURS)]
                _draw_interval(axes, interval, len(texts), colour)
                texts.append(interval.label)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_ylim(len(texts) - 0.4, -0.6)
        axes.set_yticks(range(len(texts)), texts)
        for text in axes.get_yticklabels():
            text.set_fontweight("normal" if text.get_text() in labels else "bold")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=PALE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.margins(x=0.1)
        axes.set_xlabel(x_name)
        return _save(figure, title)


@contextmanager
def _new_figure() -> Iterator[Figure]:
    """Gives an empty figure to draw in."""
    with matplotlib.rc_context(FILE_STYLE):
        yield Figure(layout="constrained")


def _add_legend(figure: Figure, all_axes: Iterable[Axes]) -> None:
    """Adds one legend for all panels below them, unless there is only one line to name."""
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


def _save(figure: Figure, title: str) -> dict[str, bytes]:
    """Returns a figure with its title, broken into lines as wide as it is, in every format."""
    wrapped = textwrap.fill(title, int(15 * figure.get_figwidth()))
    figure.suptitle(wrapped, x=0.01, ha="left", fontsize=9)
    files = {}
    for file_format in FILE_FORMATS:
        buffer = BytesIO()
        metadata = {"Date": None} if file_format == "svg" else None
        figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
        files[file_format] = buffer.getvalue()
    return files


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draws the means of each line with bars, or a band, of one deviation."""
    for line in panel.lines:
        if not line.points:
            continue
        style: dict[str, Any] = {
            "color": FILE_COLOURS[line.colour % len(FILE_COLOURS)],
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
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_interval(axes: Axes, interval: Interval, y: float, colour: str) -> None:
    """Draws a dot and its interval; a dot without an interval is hollow."""
    if interval.low is None or interval.high is None:
        axes.plot(interval.value, y, "o", color=colour, markerfacecolor="white", markersize=5)
        return
    axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.8)
    axes.plot(interval.value, y, "o", color=colour, markersize=5)
