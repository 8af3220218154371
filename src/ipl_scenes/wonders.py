"""Natural wonders: waterfall, lake, island and canyon."""

from __future__ import annotations

from ipl_scenes.buildings import boat, cabin, canoe, pier
from ipl_scenes.canvas import Canvas, Point
from ipl_scenes.land import (
    GRASSES,
    ROCK,
    WATERS,
    ground,
    hills,
    mountains,
    ridge,
    ripple,
    road,
    rock,
    rocks,
    swell,
    water,
)
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale
from ipl_scenes.plants import LEAVES, PINES, grass, grove, palm, pine, pine_row, tree
from ipl_scenes.skies import WHITE, sky, weather


def waterfall(c: Canvas) -> None:
    """Paint water that falls over a cliff into a pool."""
    rng = c.rng
    brink = rng.uniform(18, 36)
    sky(c, brink + 6, sun=0.4, clouds=0.5)
    if rng.random() < 0.4:
        mountains(c, brink + 4, rng.uniform(8, 18), depth=0.75)
    stone = jitter(rng, rng.choice((ROCK, rgb("6f6a60"), rgb("5f6a6c"), rgb("8a6f5c"))), 8)
    green = rng.choice(LEAVES)
    pool = rng.uniform(72, 84)
    line = ridge(rng, brink + 3, 6, 0.45)
    c.polygon(ground(line), stone, scale(stone, 0.6), depth=0.12, dabs=30)
    _cliff_marks(c, line, pool, stone)
    turf = [*line, *((x, y + rng.uniform(1.5, 4.5)) for x, y in reversed(line))]
    c.polygon(turf, green, scale(green, 0.7), depth=0.15)
    if rng.random() < 0.5:
        pine_row(c, brink + 1, 10, 10, depth=0.25)
    else:
        grove(c, brink + 2, 10, 8, depth=0.2)
    water(c, pool, 100, rng.choice(WATERS), ripples=20, glitter=False)
    x = rng.uniform(36, 64)
    kind = rng.random()
    if kind < 0.4:
        falls = [(x, brink, rng.uniform(6, 11), pool)]
    elif kind < 0.65:
        step = (brink + pool) / 2 + rng.uniform(-6, 6)
        falls = [(x, brink, 7.0, step), (x + rng.uniform(-6, 6), step - 1, 11.0, pool)]
    elif kind < 0.85:
        falls = [(x, brink, rng.uniform(20, 30), pool)]
    else:
        falls = [(x - 20, brink, 4.5, pool), (x + 2, brink, 7.0, pool), (x + 23, brink, 3.5, pool)]
    for middle, top, half, foot in falls:
        fall(c, middle, top, half, foot)
    for _ in range(rng.randint(3, 7)):
        side = rng.choice((rng.uniform(-2, 26), rng.uniform(74, 102)))
        rock(c, side, pool + rng.uniform(1, 18), rng.uniform(5, 11), jitter(rng, stone, 8))
    if rng.random() < 0.6:
        for side in (rng.uniform(-3, 10), rng.uniform(90, 103)):
            tree(c, side, rng.uniform(92, 102), rng.uniform(28, 44), jitter(rng, green, 10))
    grass(c, 102, 16, scale(green, 0.8))
    c.veil(pool + 1, 9, mix(WHITE, c.mood.haze, 0.4), 0.4)


def _cliff_marks(c: Canvas, line: list[Point], foot: float, stone: Colour) -> None:
    """Paint the cracks and ledges of a rock face."""
    rng = c.rng
    for _ in range(16):
        x, top = rng.choice(line)
        y = rng.uniform(top + 4, foot - 6)
        wide, tall = rng.uniform(2, 6), rng.uniform(4, 14)
        shade = scale(stone, rng.choice((0.7, 1.15)))
        shard = [
            (x, y),
            (x + wide, y + rng.uniform(-1, 1)),
            (x + wide * 0.8, y + tall),
            (x + 0.4, y + tall * 0.8),
        ]
        c.polygon(shard, shade, depth=0.12, alpha=0.6)


def fall(c: Canvas, x: float, top: float, half: float, foot: float) -> None:
    """Paint one sheet of falling water and the spray at its foot."""
    rng = c.rng
    white = rgb("f4fafc")
    blue = rgb("9cc8dc")
    sheet = [
        (x - half, top + 1),
        (x - half * 0.5, top - 0.5),
        (x + half * 0.6, top - 0.3),
        (x + half, top + 1),
    ]
    flare = half * 1.18 + 1
    sheet += [(x + flare, foot + 1), (x - flare, foot + 1)]
    c.polygon(sheet, mix(white, blue, 0.35), white)
    for _ in range(round(6 + half * 1.4)):
        at = rng.uniform(-0.95, 0.95)
        start = top + rng.uniform(0, 0.5) * (foot - top)
        end = start + rng.uniform(0.3, 0.8) * (foot - start)
        lane = [(x + at * half, start), (x + at * (half + (flare - half) * 0.8), end)]
        shade = rng.choice((blue, white, rgb("6fa8c4")))
        c.line(lane, shade, rng.uniform(0.5, 1.3), alpha=rng.uniform(0.62, 0.9), pen=False)
        if c.ink is not None:
            c.line(lane, shade, 0.35)
    spray = [
        (
            x + rng.uniform(-1.1, 1.1) * flare,
            foot + rng.uniform(-1.5, 2.5),
            rng.uniform(2.5, 6),
            rng.uniform(1.5, 3.5),
        )
        for _ in range(9)
    ]
    c.blob(spray, white, mix(white, blue, 0.3), alpha=0.85, soft=3.0)


def lake(c: Canvas) -> None:
    """Paint still water that mirrors its far shore."""
    rng = c.rng
    shore = rng.uniform(44, 62)
    sky(c, shore - 8, sun=0.5, clouds=0.7)
    if rng.random() < 0.8:
        mountains(c, shore, rng.uniform(16, 34), depth=0.5)
    green = rng.choice(GRASSES)
    hills(c, shore - 1, shore + 1, green, 2, far=0.6, near=0.35, height=rng.uniform(4, 9))
    if rng.random() < 0.65:
        pine_row(c, shore + 0.5, rng.uniform(6, 13), rng.randint(9, 20), depth=0.25)
    else:
        grove(c, shore + 0.5, 9, 10, depth=0.25)
    if rng.random() < 0.25:
        cabin(c, rng.uniform(15, 80), shore, 6)
    c.mirror(shore, rng.uniform(1.0, 1.25))
    deep = c.tint(rng.choice(WATERS))
    c.veil(102, 60, deep, 0.85)
    c.veil(shore, 4, mix(deep, WHITE, 0.3), 0.35)
    ripple(c, shore + 2, 100, 34)
    kind = rng.random()
    if kind < 0.35:
        canoe(c, rng.uniform(25, 75), rng.uniform(70, 86), rng.uniform(6, 11))
    elif kind < 0.6:
        pier(c, rng.uniform(30, 70), rng.uniform(70, 78))
    elif kind < 0.75:
        rocks(c, 95, 5, 6)
    if rng.random() < 0.45:
        bank = scale(green, 0.8)
        c.polygon(ground(swell(rng, 100, 10, 0.7)), bank, scale(bank, 0.7), dabs=10)
        grass(c, 99, 30, bank, height=9)
    weather(c, shore, 0.35)


def island(c: Canvas) -> None:
    """Paint a small island with the sea all around it."""
    rng = c.rng
    horizon = rng.uniform(28, 50)
    sky(c, horizon, clouds=0.8)
    sea = rng.choice(WATERS)
    if rng.random() < 0.3:
        c.polygon(ground(ridge(rng, horizon + 0.5, 5, 0.5), horizon + 1), ROCK, depth=0.8)
    water(c, horizon, 100, sea)
    x, y = rng.uniform(38, 62), rng.uniform(max(56, horizon + 14), 74)
    wide = rng.uniform(24, 38)
    for grow, colour, alpha in (
        (1.35, rgb("5fc4c4"), 0.4),
        (1.18, rgb("9fe4dc"), 0.5),
        (1.07, WHITE, 0.6),
    ):
        c.ellipse(x, y + 1, wide * grow, wide * 0.2 * grow, colour, alpha=alpha)
    rocky = rng.random() < 0.35
    sand = rgb("8f8a84") if rocky else rgb("f0dcae")
    c.ellipse(x, y, wide, wide * 0.17, sand)
    green = rng.choice(LEAVES)
    for bump in range(rng.randint(1, 3)):
        tall = wide * rng.uniform(0.3, 0.75) * (1.2 if rocky else 0.8)
        middle, half = x + rng.uniform(-0.3, 0.3) * wide * (bump > 0), wide * rng.uniform(0.5, 0.72)
        mound = [
            (
                middle + half * s / 8,
                y + 1 - tall * (1 - (s / 8) ** 2) ** 0.8 + rng.uniform(-1, 1) * rocky,
            )
            for s in range(-8, 9)
        ]
        face = jitter(rng, ROCK if rocky and bump == 0 else green, 8)
        c.polygon(mound, mix(face, rgb("fff4b8"), 0.15), scale(face, 0.7), dabs=10)
    if rocky:
        for _ in range(4):
            pine(
                c,
                x + rng.uniform(-0.5, 0.5) * wide,
                y - rng.uniform(0, 3),
                rng.uniform(8, 15),
                rng.choice(PINES),
            )
    else:
        grove(c, y + 1, 8, 5, left=x - wide * 0.6, right=x + wide * 0.6)
        for _ in range(rng.randint(2, 5)):
            palm(c, x + rng.uniform(-0.7, 0.7) * wide, y + rng.uniform(-1, 2), rng.uniform(15, 27))
    if rng.random() < 0.5:
        boat(
            c,
            rng.choice((rng.uniform(8, 24), rng.uniform(76, 92))),
            rng.uniform(horizon + 6, 92),
            rng.uniform(5, 9),
        )
    weather(c, horizon, 0.15)


def canyon(c: Canvas) -> None:
    """Paint walls of layered red rock on both sides of a deep valley."""
    rng = c.rng
    rim = rng.uniform(24, 40)
    sky(c, rim + 6, sun=0.5, clouds=0.5)
    red = jitter(rng, rng.choice((rgb("c46a42"), rgb("b85a3c"), rgb("cc8050"), rgb("a8604c"))), 8)
    _table_land(c, rim + 4, red, 0.8)
    _table_land(c, rim + 10, red, 0.62)
    floor = rng.uniform(66, 76)
    soil = mix(red, rgb("d8b070"), 0.4)
    c.polygon(ground(swell(rng, floor - 8, 3)), soil, scale(soil, 0.8), depth=0.45, dabs=20)
    middle, width = rng.uniform(36, 64), rng.uniform(6, 14)
    wet = rng.random() < 0.75
    road(
        c,
        middle,
        floor - 8,
        rng.choice(WATERS) if wet else rgb("e0b880"),
        near=rng.uniform(35, 65),
        width=26,
    )
    for layer in range(3):
        share = layer / 2
        for side in (-1, 1):
            gap = width + 24 * share + rng.uniform(-4, 4)
            top = rim + 6 - 12 * share + rng.uniform(-4, 4)
            wall(c, middle, side, gap, top, floor + 30 * share, red, 0.42 * (1 - share))
    if rng.random() < 0.4:
        grass(c, 102, 14, rgb("8f8a4a"))
    weather(c, floor - 10, 0.3)


def _table_land(c: Canvas, y: float, red: Colour, depth: float) -> None:
    """Paint distant flat-topped walls."""
    rng = c.rng
    line: list[Point] = []
    x, level = -3.0, y
    while x < 103:
        line += [(x, level), (x + rng.uniform(6, 18), level)]
        x = line[-1][0] + rng.uniform(1, 4)
        level = y + rng.uniform(-4, 6)
    c.polygon(ground(line), red, scale(red, 0.8), depth=depth)
    for drop in (3, 7, 12):
        c.line([(-2, y + drop), (102, y + drop)], scale(red, 0.75), 0.7, depth=depth, alpha=0.5)


def wall(
    c: Canvas,
    middle: float,
    side: int,
    gap: float,
    top: float,
    foot: float,
    red: Colour,
    depth: float,
) -> None:
    """Paint one wall of the canyon as a stair of rock layers, its edge `gap` from the middle."""
    rng = c.rng
    outer = 104.0 if side > 0 else -4.0
    tones = [scale(jitter(rng, red, 14), f) for f in (1.08, 0.86, 1.18, 0.8, 1.0, 0.72)]
    if side > 0:
        tones = [scale(tone, 0.78) for tone in tones]
    levels = [top + (foot - top) * s for s in (0.0, 0.1, 0.27, 0.42, 0.64, 0.82, 1.05)]
    buttress = [rng.uniform(-1.0, 1.0) for _ in range(4)]
    away = [gap * (1.95 - 0.95 * s) for s in (0.0, 0.06, 0.3, 0.42, 0.72, 0.84, 1.0)]
    for number, tone in enumerate(tones):
        upper, lower = levels[number], levels[number + 1]
        near, far = away[number], away[number + 1]
        # A ledge is a short step outwards below a steep face, as weathered strata are.
        lip = near + (far - near) * 0.25
        face: list[Point] = [(outer, upper - 0.5)]
        for share in (1.0, 0.66, 0.33, 0.0):
            bulge = buttress[round(share * 3)] * 1.2
            reach = near + (abs(outer - middle) - near) * share
            face.append((middle + side * reach, upper + bulge * share))
        face += [(middle + side * lip, lower - 1.0), (middle + side * far, lower + 0.8)]
        c.polygon([*face, (outer, lower + 0.8)], tone, scale(tone, 0.84), depth=depth, dabs=9)
    for _ in range(5):
        x = middle + side * (gap * 1.9 + rng.uniform(1, 30))
        crack = [
            (x, top + rng.uniform(0, 6)),
            (x - side * rng.uniform(0, 2), foot - rng.uniform(4, 20)),
        ]
        c.line(crack, scale(red, 0.5), 0.6, depth=depth, alpha=0.35)
