"""Land and water that scenes share: ridges, hills, peaks, cliffs, dunes, sea and rocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from ipl_scenes.canvas import Canvas, Point
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale

ROCK = rgb("7d7b86")
SNOW = rgb("f6fafc")
GRASSES = (rgb("7fae52"), rgb("96b558"), rgb("5f9a5a"), rgb("b3b45e"), rgb("c9a652"))
WATERS = (rgb("2f86b0"), rgb("2a9aa6"), rgb("3f74a8"), rgb("4a93ae"), rgb("2f7f8a"))


def ridge(rng: Random, base: float, height: float, rough: float) -> list[Point]:
    """Returns a jagged skyline across the image by midpoint displacement."""
    values = [rng.random(), rng.random(), rng.random()]
    reach = 0.6
    for _ in range(5):
        finer: list[float] = []
        for first, second in pairwise(values):
            finer += [first, (first + second) / 2 + rng.uniform(-reach, reach)]
        values = [*finer, values[-1]]
        reach *= rough
    low, high = min(values), max(values)
    step = 104 / (len(values) - 1)
    return [(-2 + i * step, base - height * (v - low) / (high - low)) for i, v in enumerate(values)]


def swell(rng: Random, base: float, height: float, waves: float = 1.5) -> list[Point]:
    """Returns a softly rolling skyline across the image."""
    first, second = rng.uniform(0, 6.3), rng.uniform(0, 6.3)
    points: list[Point] = []
    for step in range(35):
        angle = step / 34 * 6.283 * waves
        lift = 0.5 + 0.35 * math.sin(angle + first) + 0.15 * math.sin(2.3 * angle + second)
        points.append((-2 + step * 104 / 34, base - height * lift))
    return points


def ground(line: Sequence[Point], bottom: float = 103.0) -> list[Point]:
    """Returns the polygon between a skyline and the bottom edge."""
    return [*line, (line[-1][0], bottom), (line[0][0], bottom)]


def hills(
    c: Canvas,
    top: float,
    bottom: float,
    colour: Colour,
    layers: int = 3,
    *,
    far: float = 0.8,
    near: float = 0.0,
    height: float = 10.0,
) -> None:
    """Paint layers of rolling hills from the far one, whose foot is at `top`, to the near one."""
    for layer in range(layers):
        share = layer / max(1, layers - 1)
        line = swell(c.rng, top + (bottom - top) * share, height, c.rng.uniform(0.7, 1.8))
        shade = jitter(c.rng, colour, 12)
        depth = far + (near - far) * share
        c.polygon(ground(line), shade, scale(shade, 0.72), depth=depth, dabs=10 + 20 * layer)


def peak(
    c: Canvas,
    x: float,
    base: float,
    width: float,
    height: float,
    colour: Colour,
    *,
    snow: float = 0.0,
    depth: float = 0.0,
) -> None:
    """Paint one mountain with a lit and a shaded face; the top share `snow` of it is white."""
    rng = c.rng
    top = (x + rng.uniform(-0.12, 0.12) * width, base - height)
    left = _edge(rng, top, (x - width, base), 9, 0.05 * width)
    right = _edge(rng, top, (x + width, base), 9, 0.05 * width)
    spine = _edge(rng, top, (x + rng.uniform(-0.1, 0.3) * width, base), 9, 0.1 * width)
    dark = mix(scale(colour, 0.62), rgb("3c4a78"), 0.25)
    c.polygon([*left, *reversed(right)], dark, mix(dark, colour, 0.3), depth=depth)
    c.polygon(
        [*left, *reversed(spine)], colour, scale(colour, 0.85), depth=depth, dabs=6, pen=False
    )
    for _ in range(3):
        start = rng.randint(1, 5)
        foot = (spine[start][0] + rng.uniform(0.1, 0.35) * width, base)
        c.polygon(
            [spine[start], foot, (foot[0] - 0.12 * width, base)], colour, depth=depth, alpha=0.4
        )
    if snow > 0:
        cut = max(2, round(snow * 8))
        cool = mix(SNOW, rgb("7f9cc8"), 0.5)
        c.polygon(_cap(rng, left, spine, cut), SNOW, depth=depth * 0.8)
        c.polygon(_cap(rng, spine, right, cut), cool, depth=depth * 0.8)


def _edge(rng: Random, start: Point, end: Point, steps: int, wander: float) -> list[Point]:
    """Returns a broken line from start to end."""
    points = [start]
    for step in range(1, steps):
        share = step / steps
        x = start[0] + (end[0] - start[0]) * share + rng.uniform(-wander, wander) * share
        points.append((x, start[1] + (end[1] - start[1]) * share))
    return [*points, end]


def _cap(rng: Random, first: list[Point], second: list[Point], cut: int) -> list[Point]:
    """Returns the snow between two edges of a mountain, with a ragged lower rim."""
    (x0, y0), (x1, y1) = first[cut], second[cut]
    rim: list[Point] = []
    span = abs(x1 - x0)
    for step in range(1, 6):
        share = step / 6
        drop = rng.uniform(0.1, 0.32) * span * (1 if step % 2 else -0.55)
        rim.append((x0 + (x1 - x0) * share, y0 + (y1 - y0) * share + drop))
    return [*first[: cut + 1], *rim, *reversed(second[: cut + 1])]


def mountains(
    c: Canvas, base: float, height: float, *, depth: float = 0.6, snow: float | None = None
) -> None:
    """Paint a distant range: a hazy ridge and some peaks before it."""
    rng = c.rng
    colour = jitter(rng, rng.choice((ROCK, rgb("6f7f96"), rgb("8a7a78"), rgb("6a8290"))), 14)
    c.polygon(ground(ridge(rng, base, height * 0.75, 0.55), base + 2), colour, depth=depth + 0.3)
    white = rng.choice((0.0, 0.3, 0.45)) if snow is None else snow
    for _ in range(rng.randint(2, 4)):
        tall = height * rng.uniform(0.55, 1.0)
        wide = tall * rng.uniform(0.8, 1.3)
        peak(c, rng.uniform(0, 100), base + 1, wide, tall, colour, snow=white, depth=depth)


def water(
    c: Canvas, top: float, bottom: float, colour: Colour, *, ripples: int = 26, glitter: bool = True
) -> None:
    """Paint open water with ripples that widen towards the viewer, and the sun's path on it."""
    far = mix(c.tint(colour), c.mood.sky[2], 0.55)
    c.wash(top, min(100.0, bottom), (far, c.tint(colour), c.tint(scale(colour, 0.72))))
    c.line([(0, top), (100, top)], rgb("dfeef2"), 0.3, alpha=0.35)
    ripple(c, top, bottom, ripples)
    if glitter and c.sun is not None:
        sun_path(c, top, bottom, c.sun[0])


def ripple(c: Canvas, top: float, bottom: float, count: int) -> None:
    """Draws light and dark ripples on a water surface that is already there."""
    rng = c.rng
    for _ in range(count):
        near = rng.random()
        y = top + 1 + (bottom - top - 1) * near
        x, reach = rng.uniform(0, 100), 2 + 9 * near * rng.uniform(0.5, 1.2)
        shade = rgb("eaf6fa") if rng.random() < 0.6 else rgb("123a5a")
        width = 0.35 + 0.7 * near
        c.line([(x - reach, y), (x + reach, y)], shade, width, alpha=rng.uniform(0.12, 0.4))
        if c.ink is not None and rng.random() < 0.5:
            c.line([(x - reach, y), (x + reach, y)], shade, 0.3, depth=0.3, alpha=0.65)


def sun_path(c: Canvas, top: float, bottom: float, x: float, strength: float = 0.75) -> None:
    """Draws the broken reflection of the sun or moon on water."""
    rng = c.rng
    for step in range(22):
        near = step / 22
        y = top + 0.6 + (bottom - top) * near
        reach = (2.0 + 5.0 * near) * rng.uniform(0.4, 1.0)
        middle = x + rng.uniform(-1, 1) * (1 + 4 * near)
        fade = strength * (1 - 0.6 * near)
        ends = [(middle - reach, y), (middle + reach, y)]
        c.line(ends, c.mood.sun, 0.4 + 0.5 * near, alpha=fade, glow=True, pen=False)


def rock(c: Canvas, x: float, y: float, size: float, colour: Colour, depth: float = 0.0) -> None:
    """Paint a boulder that stands on `y`."""
    rng = c.rng
    crown: list[Point] = [(x - size, y)]
    for share in (-0.7, -0.25, 0.2, 0.65):
        crown.append((x + share * size, y - size * rng.uniform(0.5, 0.95) * (1.1 - abs(share))))
    shape = [*crown, (x + size, y)]
    c.polygon(shape, scale(colour, 0.62), scale(colour, 0.5), depth=depth)
    c.polygon([*crown[:4], (x, y), crown[0]], colour, scale(colour, 0.8), depth=depth, pen=False)


def rocks(c: Canvas, y: float, count: int, size: float, colour: Colour = ROCK) -> None:
    """Scatter boulders along a line."""
    for _ in range(count):
        where = (c.rng.uniform(0, 100), y + c.rng.uniform(-2, 3))
        rock(c, *where, size * c.rng.uniform(0.5, 1.2), jitter(c.rng, colour, 10))


def road(
    c: Canvas, x: float, top: float, colour: Colour, *, near: float = 50.0, width: float = 22.0
) -> None:
    """Paint a winding path or river from a far point down to the bottom edge."""
    rng = c.rng
    sway = rng.uniform(6, 16) * rng.choice((-1, 1))
    left: list[Point] = []
    right: list[Point] = []
    for step in range(15):
        share = step / 14
        eased = share * share
        middle = x + (near - x) * share + sway * math.sin(share * 5.5) * (0.25 + 0.75 * share)
        half = 0.4 + width / 2 * eased
        y = top + (102 - top) * (0.35 * share + 0.65 * eased)
        left.append((middle - half, y))
        right.append((middle + half, y))
    c.polygon([*left, *reversed(right)], mix(colour, c.mood.haze, 0.2), colour, dabs=8)
