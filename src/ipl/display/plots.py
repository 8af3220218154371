"""Plots in a page: bars, lines, strips of dots and confusion as inline SVG.

They take their colours from the page's style sheet. They are as wide as a phone's page, so that
their letters stay readable there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 420
LINE = 22  # height of a bar with its label
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 40


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
