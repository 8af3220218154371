"""Plots: inline SVG for pages, and lines, bars and intervals as SVG and PNG files.

Inline drawings take their colours from the page's style sheet. They are as wide as a phone's page,
so that their letters stay readable there. Files are drawn with matplotlib, which is optional.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ipl.support.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 420
LINE = 22  # height of a bar with its label
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 40

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
    dotted: bool = True  # False: a level without dots


@dataclass(frozen=True)
class Panel:
    """One panel of a plot file: its lines, and what is written below the x axis."""

    title: str
    lines: tuple[ErrorBarLine, ...]
    x_ticks: tuple[tuple[float, str], ...]
    tick_size: int = 9
    zero: bool = False  # whether 0 on the y axis is marked


@dataclass(frozen=True)
class BarPanel:
    """One panel of horizontal bars: a value or None for each label, and what it is compared with.

    `texts` are written beside the bars, `marks` are drawn as short lines on them, and each
    reference (value, name) is a dashed line across all of them.
    """

    title: str
    values: tuple[float | None, ...]
    texts: tuple[str, ...]
    marks: tuple[float | None, ...] = ()
    references: tuple[tuple[float, str], ...] = ()
    end: float | None = None  # of the scale


@dataclass(frozen=True)
class Interval:
    """A difference with its interval, if it has one, in a plot of intervals."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def bars(
    rows: Sequence[Bar], alt: str, scale_end: float = 0.0, legend: Sequence[tuple[str, int]] = ()
) -> str:
    """Returns horizontal bars with their labels above them; values may be negative.

    The scale reaches at least to `scale_end`: drawings that share it can be compared. The legend
    names tones.
    """
    low = min(0.0, *(row.value for row in rows)) if rows else 0.0
    high = max(scale_end, 0.0, *(row.value for row in rows)) if rows else 1.0
    span = (high - low) or 1.0
    room = WIDTH - 90  # numbers stand to the right of all bars
    zero = -low / span * room
    parts, y = [], 4.0
    for row in rows:
        x, width = zero + min(row.value, 0.0) / span * room, abs(row.value) / span * room
        parts.append(_text(0, y + 12, row.label))
        parts.append(
            f'<rect class="t{row.tone}" x="{x:.1f}" y="{y + 17:.1f}" '
            f'width="{max(width, 1):.1f}" height="10" rx="2"/>'
        )
        parts.append(f'<path class="axis" d="M{zero:.1f} {y + 15:.1f}v14"/>')
        parts.append(_text(WIDTH, y + 26, row.shown, "end", "strong"))
        y += LINE + 14
    for name, tone in legend:
        parts.append(f'<rect class="t{tone}" x="0" y="{y + 3:.1f}" width="10" height="10" rx="2"/>')
        parts.append(_text(16, y + 12, name, kind="small"))
        y += 18
    return _svg(parts, y, alt)


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
    known = [(x, y) for line in series for x, y in line.points if y is not None]
    x_low, x_high = x_range or _range([x for x, _ in known], 0.0)
    y_low, y_high = y_range or _range([y for _, y in known])
    if arrivals:  # their names stand above the lines
        y_high += 0.25 * (y_high - y_low)
    height = 260.0
    inner, floor = WIDTH - LEFT - RIGHT, height - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1)
        return LEFT + across * inner, floor - (y - y_low) / ((y_high - y_low) or 1) * (floor - TOP)

    parts = []
    for tick in ticks(y_low, y_high):
        y = at(x_low, tick)[1]
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, y + 4, _tick(tick), "end", "small"))
    for tick, name in x_ticks or [(t, _tick(t)) for t in ticks(x_low, x_high)]:
        parts.append(_text(at(tick, y_low)[0], floor + 16, name, "middle", "small"))
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>')
    parts.append(_text(LEFT + inner / 2, height - 6, x_name, "middle", "small"))
    parts.append(
        f'<text class="small" text-anchor="middle" transform="translate(11 '
        f'{(floor + TOP) / 2:.0f}) rotate(-90)">{escape(y_name)}</text>'
    )
    if diagonal:
        (x1, y1), (x2, y2) = at(x_low, y_low), at(x_high, y_high)
        parts.append(f'<path class="guide" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
    for number, (arrival, name) in enumerate(arrivals):
        x = at(arrival, y_low)[0]
        parts.append(f'<path class="guide" d="M{x:.1f} {TOP}V{floor}"/>')
        late = x > WIDTH - RIGHT - 90  # no room for the name to the right of the line
        corner = (x - 4 if late else x + 4, TOP + 10 + 15 * (number % 3))
        parts.append(_text(*corner, name, "end" if late else "start", "strong"))
    for line in series:
        points = [at(x, y) for x, y in line.points if y is not None]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if len(points) > 1:
            parts.append(f'<path class="l{line.tone}" d="M{path}"/>')
        if len(points) <= 40:
            parts += [_mark(x, y, line.tone) for x, y in points]
    if len(series) > 1:
        height = _legend(parts, [(line.name, line.tone) for line in series], height)
    return _svg(parts, height, alt)


def strips(groups: Sequence[Strip], alt: str, name: str) -> str:
    """Returns for each group a line of grey dots with the marked one in colour."""
    values = [value for group in groups for value in (*group.values, group.marked)]
    low, high = _range(values)
    parts, y = [], 4.0

    def at(value: float) -> float:
        return 10 + (value - low) / ((high - low) or 1) * (WIDTH - 20)

    for group in groups:
        parts.append(_text(0, y + 12, group.label))
        y += 30
        parts.append(f'<path class="grid" d="M10 {y}H{WIDTH - 10}"/>')
        parts += [
            f'<circle class="t0 faint" cx="{at(v):.1f}" cy="{y}" r="5"/>' for v in group.values
        ]
        parts.append(_mark(at(group.marked), y, 1, 7))
        y += 18
    for tick in ticks(low, high):
        parts.append(_text(at(tick), y + 12, _tick(tick), "middle", "small"))
    parts.append(_text(WIDTH / 2, y + 30, name, "middle", "small"))
    return _svg(parts, y + 36, alt)


def heat(counts: Sequence[Sequence[int]], names: Sequence[str], alt: str) -> str:
    """Returns a square of cells, stronger the larger their share; rows are true classes."""
    size = len(names)
    label = min(104.0, 16 + 6.5 * max((len(name) for name in names), default=0))
    cell = (WIDTH - label) / size
    font = min(12.0, max(6.0, cell * 0.8))
    parts = []
    for i, row in enumerate(counts):
        total = sum(row) or 1
        y = label + i * cell
        parts.append(_name(label - 4, y + cell / 2 + font / 3, names[i], font))
        for j, count in enumerate(row):
            x, kind = label + j * cell, "hit" if i == j else "miss"
            if not count:
                continue
            tooltip = escape(f"{names[i]} taken for {names[j]}: {count} of {total}")
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{cell - 0.6:.1f}" '
                f'height="{cell - 0.6:.1f}" opacity="{0.12 + 0.88 * count / total:.2f}">'
                f"<title>{tooltip}</title></rect>"
            )
    for j, name in enumerate(names):
        x = label + j * cell + cell / 2 + font / 3
        parts.append(_name(x, label - 4, name, font, turned=True))
    edge = WIDTH - label
    parts.append(
        f'<rect class="frame" x="{label:.1f}" y="{label:.1f}" '
        f'width="{edge:.1f}" height="{edge:.1f}"/>'
    )
    return _svg(parts, WIDTH + 2, alt)


def has_matplotlib() -> bool:
    """Returns whether plot files can be drawn."""
    return find_spec("matplotlib") is not None


def check_matplotlib() -> None:
    """Raises ConfigError unless plot files can be drawn."""
    if not has_matplotlib():
        raise ConfigError(
            "A plot needs matplotlib, which is not installed: pip install 'ipl[plots]', or leave "
            "it out with --no-plot."
        )


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

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    columns = 2 if len(panels) == 4 else min(len(panels), PANELS_PER_ROW)
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(FILE_STYLE):
        width = 3.1 * columns + 0.4 if columns > 1 else 4.6
        figure = Figure(figsize=(width, 0.5 + 2.8 * rows), layout="constrained")
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


def plot_bars(labels: Sequence[str], panels: Sequence[BarPanel], title: str) -> dict[str, bytes]:
    """Returns panels of horizontal bars side by side, as the bytes of an SVG and of a PNG file.

    Parameters
    ----------
    labels : sequence of str
        The names of the bars from top to bottom, which all panels share.
    panels : sequence of BarPanel
        The panels from left to right, each with a value for every label.
    title : str
        What the plot shows.

    Returns
    -------
    dict of str to bytes
        The files by format, "svg" and "png".

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(FILE_STYLE):
        size = (3.6 * len(panels) + 1.6, 1.3 + 0.32 * len(labels))
        figure = Figure(figsize=size, layout="constrained")
        all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, panel in zip(all_axes, panels, strict=True):
            _draw_bars(axes, panel)
        wrapped = [textwrap.fill(label, 34) for label in labels]
        all_axes[0].set_yticks(range(len(labels)), wrapped)
        all_axes[0].invert_yaxis()
        _add_legend(figure, all_axes)
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

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(interval.label for _, group in groups for interval in group))
    lines = sum(len(group) + 1 for _, group in groups)
    with matplotlib.rc_context(FILE_STYLE):
        figure = Figure(figsize=(6.6, 1.0 + 0.26 * lines), layout="constrained")
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
        if not line.dotted:
            style |= {"marker": "none", "capsize": 0, "elinewidth": 0}
        x, means, deviations = zip(*line.points, strict=True)
        if line.joined and line.dotted and len(x) > 1:  # a band reads better than many bars
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


def _draw_bars(axes: Axes, panel: BarPanel) -> None:
    """Draws the bars of a panel with their texts, marks and references."""
    known = [value for value in (*panel.values, *panel.marks) if value is not None]
    end = panel.end or max([*known, *(value for value, _ in panel.references)], default=1.0)
    for y, (value, text) in enumerate(zip(panel.values, panel.texts, strict=True)):
        mark = panel.marks[y] if panel.marks else None
        if value is not None:
            axes.barh(y, value, height=0.62, color=FILE_COLOURS[0])
        if mark is not None:
            axes.plot([mark, mark], [y - 0.31, y + 0.31], color=INK, linewidth=2)
        # On white, so that a reference does not cross the text.
        edge = max((number for number in (value, mark) if number is not None), default=0.0)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(edge + 0.02 * end, y, text, va="center", fontsize=8, bbox=box)
    for index, (value, name) in enumerate(panel.references):
        colour = FILE_COLOURS[1 + index % 2]
        axes.axvline(value, color=colour, linestyle="--", linewidth=1.2, label=name, zorder=0)
    axes.set_xlim(0, 1.25 * end)  # room for the texts
    axes.set_xticks(ticks(0, end))
    axes.set_title(panel.title, loc="left")
    axes.tick_params(axis="y", length=0)


def _draw_interval(axes: Axes, interval: Interval, y: float, colour: str) -> None:
    """Draws a dot and its interval; a dot without an interval is hollow."""
    if interval.low is None or interval.high is None:
        axes.plot(interval.value, y, "o", color=colour, markerfacecolor="white", markersize=5)
        return
    axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.8)
    axes.plot(interval.value, y, "o", color=colour, markersize=5)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Returns round numbers between two others, about as many as asked for."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * m for m in (1, 2, 2.5, 5, 10) if scale * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _range(values: Sequence[float], pad: float = 0.06) -> tuple[float, float]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        return low - 0.5, high + 0.5
    edge = pad * (high - low)
    return low - edge, high + edge


def _tick(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def _mark(x: float, y: float, tone: int, radius: float = 4) -> str:
    """Returns a dot; each tone has a shape of its own, for those who cannot tell colours."""
    r = radius
    if tone == 2:
        return (
            f'<rect class="t2" x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"/>'
        )
    if tone == 3:
        return f'<path class="t3" d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {2 * r}h{-2 * r - 2}z"/>'
    return f'<circle class="t{tone}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'


def _legend(parts: list[str], names: Sequence[tuple[str, int]], height: float) -> float:
    for name, tone in names:
        parts.append(_mark(LEFT, height + 8, tone))
        parts.append(_text(LEFT + 12, height + 12, name, kind="small"))
        height += 18
    return height + 4


def _name(x: float, y: float, text: str, size: float, turned: bool = False) -> str:
    short = text if len(text) <= 16 else text[:15] + "…"
    if turned:
        position = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
        return f'<text {position} style="font-size:{size:.1f}px">{escape(short)}</text>'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" style="font-size:{size:.1f}px">'
        f"{escape(short)}</text>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    extra = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _svg(parts: Sequence[str], height: float, alt: str) -> str:
    return (
        f'<svg viewBox="-2 0 {WIDTH + 4} {height:.0f}" role="img" aria-label="{escape(alt)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
