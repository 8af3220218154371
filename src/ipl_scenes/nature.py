"""The open country: beach, desert, forest, mountain and snowfield."""

from __future__ import annotations

import math

from ipl_scenes.buildings import boat, cabin, parasol
from ipl_scenes.canvas import Canvas, Point
from ipl_scenes.land import (
    GRASSES,
    ROCK,
    SNOW,
    WATERS,
    ground,
    hills,
    mountains,
    peak,
    ridge,
    road,
    rocks,
    swell,
    water,
)
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale
from ipl_scenes.plants import (
    AUTUMN,
    BARK,
    LEAVES,
    PINES,
    cactus,
    flowers,
    grass,
    palm,
    pine,
    pine_row,
    tree,
    trunk,
)
from ipl_scenes.skies import WHITE, sky, snowfall, weather

SANDS = (rgb("f0d9a4"), rgb("ecd2a8"), rgb("f5e4be"), rgb("e2c48c"))


def beach(c: Canvas) -> None:
    """Paint sand that meets the sea, with palms, parasols or rocks."""
    rng = c.rng
    horizon = rng.uniform(32, 52)
    sky(c, horizon)
    if rng.random() < 0.35:
        c.polygon(
            ground(ridge(rng, horizon + 1, rng.uniform(5, 12), 0.5), horizon + 1), ROCK, depth=0.7
        )
    water(c, horizon, 100, rng.choice(WATERS))
    if rng.random() < 0.45:
        boat(c, rng.uniform(15, 85), horizon + rng.uniform(1, 5), rng.uniform(5, 9))
    sand = rng.choice(SANDS)
    left, right = rng.uniform(54, 88), rng.uniform(54, 88)
    bay = rng.uniform(-10, 6)
    shore = [
        (x, left + (right - left) * x / 100 + bay * math.sin(x / 32) + rng.uniform(-0.4, 0.4))
        for x in range(-2, 103, 4)
    ]
    for lift, colour, alpha in ((5.5, rgb("8fd4d4"), 0.45), (2.2, WHITE, 0.8)):
        c.polygon(ground([(x, y - lift) for x, y in shore]), colour, alpha=alpha)
    c.line([(x, y - 8) for x, y in shore], WHITE, 0.6, alpha=0.5)
    c.polygon(ground(shore), scale(sand, 0.82), depth=0.0)
    c.polygon(ground([(x, y + 3) for x, y in shore]), sand, scale(sand, 0.9), dabs=30, pen=False)
    for _ in range(rng.randint(1, 3)):
        x = rng.uniform(12, 88)
        parasol(
            c, x, min(98, left + (right - left) * x / 100 + rng.uniform(9, 18)), rng.uniform(7, 12)
        )
    if rng.random() < 0.3:
        rocks(c, max(left, right) + 4, 3, 5)
    if rng.random() < 0.6:
        side = rng.choice((rng.uniform(2, 16), rng.uniform(84, 98)))
        for _ in range(rng.randint(1, 2)):
            palm(c, side + rng.uniform(-5, 5), rng.uniform(90, 101), rng.uniform(38, 64))
    weather(c, horizon, 0.1)


def desert(c: Canvas) -> None:
    """Paint dunes with a lit and a shaded face, or a plain of cacti and table mountains."""
    rng = c.rng
    horizon = rng.uniform(36, 58)
    sky(c, horizon, sun=0.85, clouds=0.35)
    sand = jitter(rng, rng.choice((rgb("e8b868"), rgb("e0a05c"), rgb("d98c50"), rgb("ecc98a"))), 8)
    if rng.random() < 0.35:
        for _ in range(rng.randint(1, 3)):
            mesa(c, rng.uniform(5, 95), horizon + 2, rng.uniform(7, 16), rng.uniform(7, 15))
    elif rng.random() < 0.4:
        mountains(c, horizon + 2, rng.uniform(8, 14), depth=0.75, snow=0.0)
    layers = rng.randint(3, 5)
    for layer in range(layers):
        share = layer / (layers - 1)
        dune(c, horizon + 3 + share * (86 - horizon), rng.uniform(9, 19), sand, 0.6 * (1 - share))
    if rng.random() < 0.6:
        for _ in range(rng.randint(1, 4)):
            near = rng.random()
            cactus(c, rng.uniform(6, 94), horizon + 12 + near * 30, 9 + 20 * near)
    if rng.random() < 0.3:
        rocks(c, 94, 3, 5, rgb("b07850"))
    weather(c, horizon, 0.2)


def dune(c: Canvas, base: float, height: float, sand: Colour, depth: float) -> None:
    """Paint one dune: a crest that parts the sunlit slope from the slope in shadow."""
    rng = c.rng
    crest = swell(rng, base, height, rng.uniform(0.6, 1.3))
    c.polygon(ground(crest), sand, mix(sand, rgb("fff0c8"), 0.3), depth=depth, dabs=14)
    top = min(range(4, len(crest) - 4), key=lambda i: crest[i][1])
    tail: list[Point] = []
    x, y = crest[top]
    reach = rng.uniform(12, 34) * rng.choice((-1, 1))
    for step in range(9):
        share = step / 8
        tail.append((x + reach * (share + 0.25 * math.sin(share * 6)), y + share * (103 - y) * 0.5))
    rim = crest[top:] if reach > 0 else crest[: top + 1][::-1]
    shade = mix(scale(sand, 0.68), rgb("8a5470"), 0.2)
    edge = [*rim, (rim[-1][0], tail[-1][1]), *reversed(tail)]
    c.polygon(edge, shade, mix(shade, sand, 0.7), depth=depth, dabs=6, pen=False)


def mesa(c: Canvas, x: float, base: float, width: float, height: float) -> None:
    """Paint a flat-topped mountain of layered red rock."""
    rock_red = jitter(c.rng, rgb("b8643f"), 14)
    top = base - height
    outline = [(x - width, base), (x - width * 0.72, base - height * 0.4), (x - width * 0.6, top)]
    outline += [(x + width * 0.6, top), (x + width * 0.7, base - height * 0.4), (x + width, base)]
    c.polygon(outline, rock_red, scale(rock_red, 0.8), depth=0.45)
    dark = [(x + width * 0.15, top), *outline[3:], (x + width * 0.2, base)]
    c.polygon(dark, scale(rock_red, 0.68), depth=0.45, pen=False)
    for share in (0.2, 0.45):
        y = top + height * share
        c.line(
            [(x - width * 0.62, y), (x + width * 0.62, y)],
            rgb("e8a878"),
            0.6,
            depth=0.45,
            alpha=0.6,
        )


def forest(c: Canvas) -> None:
    """Paint a forest, either from a hillside or from among its trunks."""
    if c.rng.random() < 0.55:
        _forest_slope(c)
    else:
        _forest_inside(c)


def _forest_slope(c: Canvas) -> None:
    """Paint rows of trees that step down from the mist to the viewer."""
    rng = c.rng
    horizon = rng.uniform(22, 42)
    sky(c, horizon, sun=0.4, clouds=0.4)
    if rng.random() < 0.4:
        mountains(c, horizon + 8, rng.uniform(12, 22), depth=0.8)
    autumn, conifers = rng.random() < 0.25, rng.random() < 0.65
    layers = 5
    for layer in range(layers):
        share = layer / (layers - 1)
        y = horizon + 8 + share * (94 - horizon)
        depth = 0.78 * (1 - share)
        leaf = rng.choice(AUTUMN if autumn else PINES if conifers else LEAVES)
        c.polygon(ground(swell(rng, y + 1, 5)), leaf, scale(leaf, 0.7), depth=depth, pen=False)
        if conifers:
            pine_row(c, y, 11 + 24 * share, 15 - 2 * layer, depth=depth, colour=leaf)
        else:
            for step in range(12 - layer):
                x = (step + rng.random()) * 100 / (12 - layer)
                tall = (11 + 19 * share) * rng.uniform(0.8, 1.2)
                tree(c, x, y + 2, tall, jitter(rng, leaf, 14), depth=depth)
        if layer < 3:
            c.veil(y + 4, 7, c.mood.haze, rng.uniform(0.2, 0.55))


def _forest_inside(c: Canvas) -> None:
    """Paint the view along a path between trunks, with light falling through the leaves."""
    rng = c.rng
    autumn = rng.random() < 0.35
    leaf = rng.choice(AUTUMN if autumn else LEAVES)
    glade = mix(mix(c.mood.sky[2], c.tint(leaf), 0.35), c.mood.haze, 0.3)
    c.wash(0, 100, (c.tint(scale(leaf, 0.9)), glade, c.tint(leaf)))
    c.halo(rng.uniform(30, 70), rng.uniform(25, 45), 45, c.mood.sun, 0.7)
    bark = rng.choice((BARK, rgb("7a6a58"), rgb("54463f"), rgb("d8d2c4")))
    floor = rng.uniform(60, 68)
    for layer in range(4):
        share = layer / 3
        depth = 0.75 * (1 - share)
        y = floor + share * 26
        soil = mix(leaf, rgb("6b5a3a"), 0.35)
        c.polygon(ground(swell(rng, y, 4)), soil, scale(soil, 0.75), depth=depth, dabs=16)
        if layer == 3:
            road(c, rng.uniform(42, 58), floor + 1, rgb("c8a878"), width=24)
        for _ in range(9 - 2 * layer):
            x = rng.uniform(0, 100)
            if layer < 2 or abs(x - 50) > 22:
                trunk(c, x, y + 1, 1.6 + 5.5 * share, jitter(rng, bark, 10), depth)
        crown = [
            (
                rng.uniform(0, 100),
                rng.uniform(-4, 16 - 3 * layer),
                rng.uniform(8, 16),
                rng.uniform(5, 10),
            )
            for _ in range(6)
        ]
        c.blob(crown, scale(leaf, 1.08 - 0.14 * layer), scale(leaf, 0.8), depth=depth * 0.8)
    grass(c, 101, 24, scale(leaf, 0.8), height=8)


def mountain(c: Canvas) -> None:
    """Paint a great peak above its foothills."""
    rng = c.rng
    base = rng.uniform(62, 82)
    sky(c, base - 15, clouds=0.6)
    if rng.random() < 0.7:
        mountains(c, base, rng.uniform(24, 38), depth=0.65)
    stone = jitter(rng, rng.choice((ROCK, rgb("6c7488"), rgb("8a786c"), rgb("76707c"))), 12)
    snow = rng.choice((0.25, 0.35, 0.5, 0.6))
    tall = rng.uniform(46, 62)
    x = rng.uniform(32, 68)
    for side in rng.sample((-1, 1), rng.randint(1, 2)):
        small = tall * rng.uniform(0.5, 0.75)
        peak(
            c,
            x + side * rng.uniform(24, 36),
            base,
            small * 0.9,
            small,
            stone,
            snow=snow * 0.8,
            depth=0.3,
        )
    peak(c, x, base, tall * rng.uniform(0.7, 1.0), tall, stone, snow=snow, depth=0.15)
    green = rng.choice(GRASSES)
    c.polygon(ground(swell(rng, base + 1, 4)), green, depth=0.55)
    c.veil(base - 1, rng.uniform(6, 12), c.mood.haze, rng.uniform(0.25, 0.6))
    kind = rng.random()
    if kind < 0.3:
        water(c, base, 100, rng.choice(WATERS))
        pine_row(c, base + 1, 6, 16, depth=0.3)
    else:
        hills(c, base + 6, 92, green, 3, far=0.45, height=9)
        if kind < 0.75:
            pine_row(c, rng.uniform(88, 98), rng.uniform(12, 22), rng.randint(5, 11), depth=0.05)
        else:
            flowers(c, 84, 100, 45)
    if rng.random() < 0.2:
        cabin(c, rng.uniform(20, 80), rng.uniform(86, 93), rng.uniform(8, 11))


def snowfield(c: Canvas) -> None:
    """Paint open rolling snow with blue shadows."""
    rng = c.rng
    horizon = rng.uniform(34, 54)
    sky(c, horizon, sun=0.5, clouds=0.6, birds=0.15)
    if rng.random() < 0.5:
        mountains(c, horizon + 3, rng.uniform(10, 22), depth=0.7, snow=0.7)
    if rng.random() < 0.7:
        pine_row(c, horizon + 5, rng.uniform(5, 9), 18, depth=0.55, snow=True)
    blue = mix(SNOW, rgb("88aede"), rng.uniform(0.35, 0.6))
    for layer in range(4):
        line = swell(rng, horizon + 5 + layer * (88 - horizon) / 3.4, rng.uniform(5, 9))
        c.polygon(ground(line), SNOW, blue, depth=0.3 * (1 - layer / 3), dabs=8)
        if layer in (1, 2) and rng.random() < 0.5:
            spot = rng.choice(line[4:-4])
            tall = 8 + 7 * layer
            for _ in range(rng.randint(1, 4)):
                x = spot[0] + rng.uniform(-10, 10)
                pine(c, x, spot[1] + 4, tall * rng.uniform(0.7, 1.1), rng.choice(PINES), snow=True)
    kind = rng.random()
    if kind < 0.3:
        cabin(c, rng.uniform(20, 80), rng.uniform(68, 80), rng.uniform(10, 15), snow=True)
    elif kind < 0.55:
        tracks = swell(rng, 0, 14, 0.8)
        for step in range(12):
            near = step / 12
            x = 30 + tracks[step * 2][1] * 1.2 + 14 * near
            c.ellipse(
                x, horizon + 16 + near * (80 - horizon), 0.5 + near, 0.3 + 0.6 * near, rgb("8fb0d8")
            )
    elif kind < 0.75:
        for step in range(7):
            x, y = step * 16 + rng.uniform(-2, 2), 84 - step * 2
            c.line([(x, y), (x, y - 9)], BARK, 1.2)
            c.line([(x, y - 6), (x + 16, y - 8)], BARK, 0.8)
    if rng.random() < 0.5:
        snowfall(c, rng.randint(40, 110))
    weather(c, horizon, 0.25)
