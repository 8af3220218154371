"""Bridges and windmills: the landmarks made of arches, cables and sails."""

from __future__ import annotations

import math

from ipl_scenes.buildings import boat, house
from ipl_scenes.canvas import Canvas, Point
from ipl_scenes.land import GRASSES, ROCK, WATERS, ground, hills, mountains, rock, swell, water
from ipl_scenes.palettes import Colour, jitter, rgb, scale
from ipl_scenes.plants import flowers, grass, grove, tree
from ipl_scenes.skies import sky, weather


def bridge(c: Canvas) -> None:
    """Paint a hanging bridge, a bridge of stone arches or a bowed garden bridge."""
    rng = c.rng
    horizon = rng.uniform(42, 56)
    sky(c, horizon)
    kind = rng.random()
    if rng.random() < 0.6:
        mountains(c, horizon + 2, rng.uniform(10, 22), depth=0.7)
    green = rng.choice(GRASSES)
    hills(c, horizon + 1, horizon + 4, green, 2, far=0.7, near=0.5, height=7)
    shore = horizon + rng.uniform(6, 10)
    water(c, shore, 100, rng.choice(WATERS))
    if kind < 0.5:
        _suspension(c, shore)
    elif kind < 0.8:
        _stone_arches(c, green)
    else:
        _garden_bridge(c, green)
    if kind < 0.8 and rng.random() < 0.4:
        boat(c, rng.uniform(15, 85), rng.uniform(86, 96), rng.uniform(5, 8))
    weather(c, shore, 0.35)


def _suspension(c: Canvas, shore: float) -> None:
    """Paint two pylons with hanging cables and the deck between them."""
    rng = c.rng
    paint = jitter(rng, rng.choice((rgb("c8452f"), rgb("c8452f"), rgb("7f98a8"), rgb("4f7f7a"))), 8)
    deck, tilt = shore + rng.uniform(3, 9), rng.uniform(-5, 5)
    tall = rng.uniform(32, 44)
    left, right = rng.uniform(18, 28), rng.uniform(70, 82)

    def road_y(x: float) -> float:
        return deck + tilt * (x - 50) / 50

    def cable(x0: float, y0: float, x1: float, y1: float, sag: float) -> list[Point]:
        steps = [s / 14 for s in range(15)]
        return [(x0 + (x1 - x0) * s, y0 + (y1 - y0) * s + 4 * sag * s * (1 - s)) for s in steps]

    tops = [(x, road_y(x) - tall) for x in (left, right)]
    spans = [
        cable(-6, road_y(-6) - 6, *tops[0], tall * 0.12),
        cable(*tops[0], *tops[1], tall * 0.86),
        cable(*tops[1], 106, road_y(106) - 6, tall * 0.12),
    ]
    for span in spans:
        for x, y in span:
            c.line([(x, y), (x, road_y(x))], paint, 0.35, alpha=0.8)
        c.line(span, paint, 1.0)
    for x, top in tops:
        for side in (-1.9, 1.9):
            c.rect(
                x + side - 0.95, top - 1, x + side + 0.95, road_y(x) + 17, paint, scale(paint, 0.7)
            )
        for share in (0.02, 0.3, 0.6):
            y = top + tall * share
            c.rect(x - 2.4, y, x + 2.4, y + 1.8, scale(paint, 0.88))
        c.rect(x - 5, road_y(x) + 15, x + 5, road_y(x) + 19, rgb("8a8680"), rgb("5c5a5a"))
    slab = [(-3, road_y(-3)), (103, road_y(103)), (103, road_y(103) + 2.6), (-3, road_y(-3) + 2.6)]
    c.polygon(slab, scale(paint, 0.8))
    c.line(slab[:2], scale(paint, 1.2), 0.6)


def _stone_arches(c: Canvas, green: Colour) -> None:
    """Paint a stone bridge on round arches, with its reflection, or a tall viaduct."""
    rng = c.rng
    stone = jitter(rng, rng.choice((rgb("b8a68c"), rgb("a09488"), rgb("c8b08c"), rgb("94969c"))), 8)
    count = rng.randint(2, 5)
    top, water_line = rng.uniform(44, 56), rng.uniform(76, 84)
    hump = rng.uniform(0, 8)
    behind = c.image.copy()
    crown = [(x, top - hump * (1 - ((x - 50) / 53) ** 2)) for x in range(-3, 104, 4)]
    c.polygon([*crown, (103, water_line), (-3, water_line)], stone, scale(stone, 0.7), dabs=30)
    span = 106 / count
    gap = span * rng.uniform(0.33, 0.39)
    tall = min(water_line - top - 5, gap * 1.7)
    for step in range(count):
        middle = -3 + (step + 0.5) * span
        arch = [
            (
                middle - gap * math.cos(a / 12 * math.pi),
                water_line - tall * math.sin(a / 12 * math.pi) ** 0.7,
            )
            for a in range(13)
        ]
        c.polygon(arch, scale(stone, 0.5), scale(stone, 0.4))
        c.reveal(behind, [(x + gap * 0.16, y + 0.5) for x, y in arch])
        c.line(arch, scale(stone, 1.15), 1.3)
        c.rect(
            middle + span / 2 - gap * 0.25,
            water_line - 3,
            middle + span / 2 + gap * 0.25,
            water_line + 1,
            scale(stone, 0.8),
        )
    c.line(crown, scale(stone, 1.18), 2.2)
    c.line([(x, y + 2.4) for x, y in crown], scale(stone, 0.6), 0.5)
    c.mirror(water_line, 1.0)
    c.veil(96, 40, c.tint(rng.choice(WATERS)), 0.85)
    for _ in range(16):
        x, y, reach = rng.uniform(0, 100), rng.uniform(water_line, 99), rng.uniform(3, 10)
        c.line([(x - reach, y), (x + reach, y)], rgb("e8f4f8"), 0.5, alpha=0.35)
    if rng.random() < 0.6:
        tree(c, rng.choice((4, 96)), water_line + 4, rng.uniform(24, 38), scale(green, 0.85))


def _garden_bridge(c: Canvas, green: Colour) -> None:
    """Paint a bowed wooden bridge over a stream between two banks."""
    rng = c.rng
    paint = jitter(rng, rng.choice((rgb("c2402f"), rgb("9a6a40"), rgb("c2402f"))), 8)
    foot, rise = rng.uniform(72, 78), rng.uniform(16, 24)
    for side in (-1, 1):
        bank = [(50 + side * s, foot - 4 + (50 - s) * 0.55) for s in (55, 42, 34, 26)]
        c.polygon(
            [*bank, (50 + side * 18, 103), (50 + side * 55, 103)], green, scale(green, 0.7), dabs=10
        )
        grove(c, foot - 4, 16, 3, left=50 + side * 30, right=50 + side * 52)
    bow = [(50 + s * 4, foot - rise * (1 - (s / 10) ** 2)) for s in range(-10, 11)]
    under = [(x, y + 4 + 0.05 * abs(x - 50)) for x, y in bow]
    c.polygon([*bow, *reversed(under)], paint, scale(paint, 0.6))
    for x, y in bow[::2]:
        c.line([(x, y), (x, y - 8)], scale(paint, 0.9), 1.1)
    for lift, width in ((8.0, 1.2), (4.4, 0.7)):
        c.line([(x, y - lift) for x, y in bow], paint, width)
    for x, y in (bow[4], bow[-5]):
        c.line([(x, y + 4), (x, foot + 9)], scale(paint, 0.6), 1.8)
    c.line([(26, foot + 13), (74, foot + 13)], paint, 1.4, alpha=0.35)
    rock(c, rng.uniform(20, 34), 98, 7, ROCK)
    rock(c, rng.uniform(66, 80), 99, 8, ROCK)


def windmill(c: Canvas) -> None:
    """Paint a windmill with four sails in a field, by a canal or on a hill."""
    rng = c.rng
    base = rng.uniform(56, 72)
    sky(c, base)
    if rng.random() < 0.2:
        mountains(c, base + 1, rng.uniform(8, 14), depth=0.8)
    green = rng.choice(GRASSES)
    hills(c, base + 1, base + 5, green, 2, far=0.55, near=0.25, height=rng.uniform(2, 8))
    if rng.random() < 0.6:
        grove(c, base + 1, 7, 6, depth=0.45)
    if rng.random() < 0.35:
        mill(c, rng.uniform(8, 30), base + 3, rng.uniform(15, 21), 0.4)
    x, foot = rng.uniform(38, 68), base + rng.uniform(8, 14)
    c.polygon(ground(swell(rng, foot + 2, 3, 0.8)), green, scale(green, 0.75), dabs=24)
    kind = rng.random()
    if kind < 0.4:
        _flower_rows(c, foot + 3, rng.uniform(35, 65))
    elif kind < 0.65:
        water(c, foot + 8, 100, rng.choice(WATERS), ripples=14)
        grass(c, foot + 9, 26, scale(green, 0.8), height=5)
    elif kind < 0.85:
        flowers(c, foot + 6, 101, 60)
    else:
        grass(c, 102, 40, rgb("d8b85a"), height=12)
    if rng.random() < 0.4:
        house(c, x + rng.choice((-22, 15)), foot + 1, rng.uniform(8, 11))
    mill(c, x, foot, rng.uniform(36, 46), 0.0)
    weather(c, base, 0.25)


def _flower_rows(c: Canvas, top: float, vanish: float) -> None:
    """Paint a field of flowers in rows that meet at the horizon."""
    rng = c.rng
    petals = rng.sample(
        (rgb("e2453f"), rgb("f4c63c"), rgb("e88ab0"), rgb("9a62c0"), rgb("f08a3a"), rgb("f4f0ea")),
        3,
    )
    for row in range(-7, 8):
        near, far = 50 + row * 19, vanish + row * 5
        paint = petals[row % 3]
        c.polygon(
            [(far - 1.6, top), (far + 1.6, top), (near + 7, 103), (near - 7, 103)],
            paint,
            scale(paint, 0.9),
            dabs=3,
        )


def mill(c: Canvas, x: float, foot: float, tall: float, depth: float) -> None:
    """Paint one tower mill: body, cap, gallery and lattice sails."""
    rng = c.rng
    body = jitter(
        rng,
        rng.choice((rgb("8a5a40"), rgb("f0e8d8"), rgb("a0764f"), rgb("6f5f58"), rgb("c8b090"))),
        8,
    )
    cap = jitter(rng, rng.choice((rgb("5a4038"), rgb("3f4f5c"), rgb("a84a38"))), 6)
    wide, thin = tall * 0.2, tall * 0.12
    top = foot - tall * 0.74
    c.polygon(
        [(x - thin, top), (x + thin, top), (x + wide, foot), (x - wide, foot)],
        body,
        scale(body, 0.8),
        depth=depth,
    )
    c.polygon(
        [(x + thin * 0.3, top), (x + thin, top), (x + wide, foot), (x + wide * 0.3, foot)],
        scale(body, 0.68),
        depth=depth,
        pen=False,
    )
    c.rect(x - wide * 0.24, foot - tall * 0.14, x + wide * 0.24, foot, rgb("4a3428"), depth=depth)
    c.rect(
        x - thin * 0.3,
        foot - tall * 0.5,
        x + thin * 0.2,
        foot - tall * 0.42,
        rgb("4a5460"),
        depth=depth,
    )
    if rng.random() < 0.5:
        level = foot - tall * 0.3
        c.rect(
            x - wide * 1.3,
            level,
            x + wide * 1.3,
            level + tall * 0.025,
            scale(cap, 0.9),
            depth=depth,
        )
    dome = [(x - thin * 1.15, top), (x - thin * 0.8, top - tall * 0.1), (x, top - tall * 0.16)]
    c.polygon(
        [*dome, (x + thin * 0.8, top - tall * 0.1), (x + thin * 1.15, top)],
        cap,
        scale(cap, 0.75),
        depth=depth,
    )
    hub = (x - thin * 0.1, top - tall * 0.04)
    turn = rng.uniform(0.15, 1.4)
    cloth = rng.choice((rgb("f8f2e4"), rgb("f2e4c8"), rgb("d8604a")))
    for blade in range(4):
        angle = turn + blade * math.pi / 2
        along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
        reach, broad = tall * 0.52, tall * 0.1

        def spot(out: float, off: float, along: Point = along, across: Point = across) -> Point:
            return (
                hub[0] + along[0] * out + across[0] * off,
                hub[1] + along[1] * out + across[1] * off,
            )

        sail = [spot(reach * 0.2, 0), spot(reach, 0), spot(reach, broad), spot(reach * 0.2, broad)]
        c.polygon(sail, cloth, depth=depth)
        for step in range(1, 6):
            out = reach * (0.2 + 0.8 * step / 6)
            c.line([spot(out, 0), spot(out, broad)], scale(cap, 0.8), 0.35, depth=depth, alpha=0.7)
        c.line([hub, spot(reach * 1.03, 0)], scale(cap, 0.7), max(0.6, tall * 0.024), depth=depth)
    c.ellipse(*hub, tall * 0.03, tall * 0.03, scale(cap, 0.6), depth=depth)
