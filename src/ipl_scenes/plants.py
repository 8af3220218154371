"""Plants: pines, broad-leaved trees, palms, cacti, bare trunks, grass and flowers."""

from __future__ import annotations

import math

from ipl_scenes.canvas import Canvas, Oval, Point
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale

PINES = (rgb("2f5f4a"), rgb("3a6b45"), rgb("28524f"), rgb("4a6b3c"))
LEAVES = (rgb("5c9440"), rgb("78a446"), rgb("4a8450"), rgb("8fae4a"))
AUTUMN = (rgb("d98a2f"), rgb("c8542c"), rgb("e0b040"), rgb("a8682c"), rgb("8f9a3f"))
BARK = rgb("6a4a35")


def pine(
    c: Canvas,
    x: float,
    y: float,
    height: float,
    colour: Colour,
    *,
    depth: float = 0.0,
    snow: bool = False,
) -> None:
    """Paint a conifer that stands on `y`, lit from the left."""
    tiers = 4 if height > 12 else 3
    half = height * c.rng.uniform(0.2, 0.27)
    trunk = height * 0.035
    c.rect(x - trunk, y - height * 0.15, x + trunk, y, BARK, depth=depth)
    left: list[Point] = []
    right: list[Point] = []
    for tier in range(tiers):
        top, low = tier / tiers, (tier + 1) / tiers
        reach = half * (0.25 + 0.75 * low)
        left += [(x - reach * 0.5 * top, y - height * (1 - 0.9 * top))]
        left += [(x - reach, y - height * (1 - 0.9 * low))]
        right += [(x + reach * 0.5 * top, y - height * (1 - 0.9 * top))]
        right += [(x + reach, y - height * (1 - 0.9 * low))]
    c.polygon([*left, *reversed(right)], colour, scale(colour, 0.75), depth=depth)
    if height > 9:
        shade = scale(colour, 0.7)
        c.polygon(
            [(x, y - height), *right[1:], (x + half * 0.2, y - height * 0.1)],
            shade,
            depth=depth,
            pen=False,
        )
    if snow:
        for tier in range(tiers):
            tip, rim = left[2 * tier], left[2 * tier + 1]
            sag = (tip[0] + (x - tip[0]) * 0.8 + half * 0.2, (tip[1] + rim[1]) / 2)
            c.polygon([tip, rim, sag], rgb("f4f9fc"), depth=depth * 0.8)


def pine_row(
    c: Canvas,
    y: float,
    height: float,
    count: int,
    *,
    depth: float = 0.0,
    snow: bool = False,
    colour: Colour | None = None,
) -> None:
    """Paint a line of conifers across the image."""
    rng = c.rng
    base = rng.choice(PINES) if colour is None else colour
    for step in range(count):
        x = (step + rng.uniform(0.1, 0.9)) * 100 / count
        tall = height * rng.uniform(0.6, 1.1)
        pine(c, x, y + rng.uniform(-1, 1.5), tall, jitter(rng, base, 8), depth=depth, snow=snow)


def tree(
    c: Canvas, x: float, y: float, height: float, colour: Colour, *, depth: float = 0.0
) -> None:
    """Paint a broad-leaved tree that stands on `y`."""
    rng = c.rng
    trunk = height * 0.05
    c.rect(x - trunk, y - height * 0.5, x + trunk, y, BARK, scale(BARK, 0.7), depth=depth)
    crown: list[Oval] = []
    for _ in range(5):
        size = height * rng.uniform(0.17, 0.27)
        dx, dy = rng.uniform(-0.2, 0.2), rng.uniform(0.45, 0.76)
        crown.append((x + dx * height, y - dy * height, size, size * 0.9))
    c.blob(crown, mix(colour, rgb("fff2b0"), 0.18), scale(colour, 0.58), depth=depth)
    if height > 8:
        lit = [(px - 0.3 * a, py - 0.35 * b, a * 0.55, b * 0.5) for px, py, a, b in crown[:3]]
        c.blob(lit, mix(colour, rgb("fff6c0"), 0.35), colour, depth=depth, alpha=0.6)


def grove(
    c: Canvas,
    y: float,
    height: float,
    count: int,
    *,
    depth: float = 0.0,
    left: float = 0.0,
    right: float = 100.0,
) -> None:
    """Paint some broad-leaved trees in a row."""
    rng = c.rng
    base = rng.choice(LEAVES)
    for _ in range(count):
        x = rng.uniform(left, right)
        tall = height * rng.uniform(0.7, 1.15)
        tree(c, x, y + rng.uniform(-1, 1), tall, jitter(rng, base, 14), depth=depth)


def palm(c: Canvas, x: float, y: float, height: float, *, depth: float = 0.0) -> None:
    """Paint a leaning palm that stands on `y`."""
    rng = c.rng
    lean = rng.uniform(0.12, 0.42) * height * rng.choice((-1, 1))
    trunk = [(x + lean * (step / 8) ** 2, y - height * step / 8) for step in range(9)]
    c.line(trunk, rgb("8a6a4a"), max(0.7, height * 0.055), depth=depth)
    top_x, top_y = trunk[-1]
    leaf = jitter(rng, rgb("3f8f4a"), 12)
    for step in range(11):
        way = -1 + 2 * (step + rng.uniform(0.2, 0.8)) / 11
        reach = height * rng.uniform(0.34, 0.46)
        lift = reach * (0.75 - 0.55 * abs(way)) * rng.uniform(0.7, 1.1)
        rib: list[Point] = []
        under: list[Point] = []
        for part in range(6):
            along = part / 5
            px = top_x + way * reach * along * (1.15 - 0.3 * along)
            py = top_y - lift * along * (1 - along) * 2 + reach * 0.62 * along * along
            rib.append((px, py))
            under.append((px, py + height * 0.085 * math.sin(along * 3.14) ** 0.7))
        shade = scale(leaf, rng.choice((0.72, 0.9, 1.12)))
        c.polygon([*rib, *reversed(under)], shade, depth=depth)
    c.ellipse(
        top_x, top_y + height * 0.03, height * 0.04, height * 0.04, rgb("5f4028"), depth=depth
    )


def cactus(c: Canvas, x: float, y: float, height: float, *, depth: float = 0.0) -> None:
    """Paint a saguaro that stands on `y`."""
    rng = c.rng
    green = jitter(rng, rgb("4f8a52"), 12)
    thick = height * 0.15
    for side in (-1, 1):
        level = y - height * rng.uniform(0.35, 0.55)
        elbow = x + side * height * rng.uniform(0.2, 0.27)
        tip = level - height * rng.uniform(0.2, 0.32)
        c.line([(x, level), (elbow, level), (elbow, tip)], green, thick * 0.75, depth=depth)
        c.ellipse(elbow, tip, thick * 0.36, thick * 0.36, green, depth=depth, pen=False)
    c.line([(x, y), (x, y - height)], green, thick, depth=depth)
    c.ellipse(x, y - height, thick * 0.5, thick * 0.5, green, depth=depth, pen=False)
    shade = scale(green, 0.68)
    c.line(
        [(x + thick * 0.28, y), (x + thick * 0.28, y - height)], shade, thick * 0.35, depth=depth
    )


def grass(c: Canvas, y: float, count: int, colour: Colour, *, height: float = 7.0) -> None:
    """Paint blades of grass along the bottom of the image."""
    rng = c.rng
    for _ in range(count):
        x, foot = rng.uniform(-2, 102), y + rng.uniform(0, 4)
        lean, tall = rng.uniform(-2.5, 2.5), height * rng.uniform(0.5, 1.2)
        blade = [(x - 0.6, foot), (x + lean, foot - tall), (x + 0.6, foot)]
        c.polygon(blade, jitter(rng, colour, 22))


def flowers(c: Canvas, top: float, bottom: float, count: int) -> None:
    """Scatter flowers of one or two colours over a meadow, larger towards the viewer."""
    rng = c.rng
    petals = (rgb("f4d24a"), rgb("e8604f"), rgb("f4f0ea"), rgb("b886d8"), rgb("f090b0"))
    chosen = (rng.choice(petals), rng.choice(petals))
    for _ in range(count):
        near = rng.random()
        size = 0.4 + 0.9 * near
        spot = (rng.uniform(0, 100), top + (bottom - top) * near)
        c.ellipse(*spot, size, size * 0.75, rng.choice(chosen), pen=near > 0.5)


def trunk(c: Canvas, x: float, y: float, width: float, colour: Colour, depth: float) -> None:
    """Paint a tree trunk that leaves the image at its top, as seen inside a forest."""
    rng = c.rng
    lean = rng.uniform(-2, 2)
    flare = width * 0.55
    left = [(x - flare, y + 1), (x - width * 0.5, y - 8), (x - width * 0.42 + lean, -2)]
    right = [(x + width * 0.42 + lean, -2), (x + width * 0.5, y - 8), (x + flare, y + 1)]
    c.polygon([*left, *right], colour, scale(colour, 0.8), depth=depth)
    shade = [(x + width * 0.1, y), (x + width * 0.1 + lean, -2), *right]
    c.polygon(shade, scale(colour, 0.62), depth=depth, pen=False)
