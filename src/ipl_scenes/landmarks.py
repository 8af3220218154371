"""Landmarks: skyline, village, castle, lighthouse, bridge and windmill."""

from __future__ import annotations

from ipl_scenes.buildings import LAMP, boat, church, fence, house, window
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
    rocks,
    water,
)
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale
from ipl_scenes.plants import flowers, grass, grove, pine_row, tree
from ipl_scenes.skies import WHITE, sky, weather


def skyline(c: Canvas) -> None:
    """Paint the towers of a city, behind water, a park or other roofs."""
    rng = c.rng
    base = rng.uniform(64, 82)
    sky(c, base - 12)
    tone = jitter(rng, rng.choice((rgb("6f86a0"), rgb("8a8f9c"), rgb("a08a80"), rgb("5f7f8c"))), 10)
    for depth, tall, count in ((0.75, 32, 16), (0.5, 42, 12), (0.18, 50, 9)):
        for step in range(count):
            x = (step + rng.uniform(0.2, 0.8)) * 100 / count
            arch = 1 - abs(x - 50) / 110
            high = tall * rng.uniform(0.4, 1.0) * arch
            skyscraper(c, x, base + 1, 100 / count * rng.uniform(0.36, 0.52), high, tone, depth)
    kind = rng.random()
    if kind < 0.5:
        c.mirror(base, 1.0)
        c.veil(100, 75, c.tint(rng.choice(WATERS)), 0.8)
        ripple(c, base + 1, 100, 40)
        if rng.random() < 0.4:
            boat(c, rng.uniform(15, 85), rng.uniform(base + 8, 94), rng.uniform(5, 8))
    elif kind < 0.8:
        hills(c, base + 4, 96, rng.choice(GRASSES), 2, far=0.2, height=5)
        grove(c, base + 7, 9, 12, depth=0.1)
    else:
        for step in range(7):
            x = (step + rng.random()) * 100 / 7
            skyscraper(c, x, 102, 9, rng.uniform(14, 30), scale(tone, 0.6), 0.0)
    weather(c, base, 0.25)


def skyscraper(
    c: Canvas, x: float, base: float, half: float, tall: float, tone: Colour, depth: float
) -> None:
    """Paint one tower with its windows and one of several tops."""
    rng = c.rng
    face = jitter(rng, tone, 20)
    top = base - tall
    kind = rng.random()
    if kind < 0.18:
        c.polygon([(x - half, top), (x, top - half * 2), (x + half, top)], face, depth=depth)
        c.line([(x, top - half * 2), (x, top - half * 3.4)], face, 0.5, depth=depth)
    elif kind < 0.4:
        c.rect(x - half * 0.6, top - half, x + half * 0.6, top, face, depth=depth)
        c.line([(x, top - half), (x, top - half * 2.4)], face, 0.5, depth=depth)
    elif kind < 0.52:
        c.polygon(
            [(x - half, top), (x + half, top - half * 1.6), (x + half, top)], face, depth=depth
        )
    c.rect(x - half, top, x + half, base, face, mix(face, c.mood.haze, 0.25), depth=depth)
    c.rect(x + half * 0.35, top, x + half, base, scale(face, 0.72), depth=depth, pen=False)
    if depth > 0.6:
        return
    pane = scale(face, 0.55) if rng.random() < 0.5 else mix(face, WHITE, 0.45)
    columns = 3 if half > 3 else 2
    for row in range(int(tall / 3.2)):
        for column in range(columns):
            if rng.random() < 0.25:
                continue
            wx = x - half + (column + 0.5) * 2 * half / columns
            wy = top + 2 + row * 3.2
            lit = c.mood.dark and rng.random() < 0.6
            paint, size = (LAMP, 0.62) if lit else (pane, 0.55)
            c.rect(
                wx - size, wy - 0.6, wx + size, wy + 0.6, paint, depth=depth, glow=lit, pen=False
            )


def village(c: Canvas) -> None:
    """Paint houses huddled around a church among fields."""
    rng = c.rng
    base = rng.uniform(48, 62)
    sky(c, base - 8)
    if rng.random() < 0.6:
        mountains(c, base, rng.uniform(14, 28), depth=0.65)
    green = rng.choice(GRASSES)
    hills(c, base + 3, base + 14, green, 3, far=0.6, near=0.25, height=8)
    if rng.random() < 0.7:
        road(c, rng.uniform(40, 60), base + 8, rgb("d8bf90"), width=20)
    spire = rng.uniform(28, 70)
    rows = rng.randint(2, 4)
    for row in range(rows):
        share = row / (rows - 1)
        y, size = base + 9 + share * 26, 7 + 7.5 * share
        if row == 1 or (row == 0 and rows == 2):
            church(c, spire, y, size * 1.5, depth=0.12)
        count = rng.randint(4, 6) - row
        for step in range(count):
            x = 8 + (step + rng.uniform(0.05, 0.8)) * 84 / count
            if rng.random() < 0.35:
                tree(c, x - size, y + 1, size * 1.3, jitter(rng, scale(green, 0.8), 12), depth=0.1)
            house(c, x, y + rng.uniform(-2, 2), size, depth=0.22 * (1 - share))
    kind = rng.random()
    if kind < 0.3:
        fence(c, rng.uniform(-4, 10), rng.uniform(40, 104), 97, 8)
    elif kind < 0.6:
        flowers(c, 90, 101, 40)
    else:
        grass(c, 102, 30, scale(green, 0.85))
    weather(c, base, 0.3)


def castle(c: Canvas) -> None:
    """Paint a walled castle with pointed towers on a hill, a rock or the edge of a lake."""
    rng = c.rng
    base = rng.uniform(58, 70)
    sky(c, base - 6)
    if rng.random() < 0.6:
        mountains(c, base + 2, rng.uniform(14, 28), depth=0.7)
    green = rng.choice(GRASSES)
    hills(c, base + 2, base + 5, green, 2, far=0.65, near=0.5, height=8)
    x, size = rng.uniform(38, 62), rng.uniform(0.9, 1.2)
    crag = rng.random() < 0.4
    hill = ROCK if crag else green
    wander = 1.6 if crag else 0.3
    mound = [
        (x + s * 6, base - 4 + 30 * abs(s / 9) ** 1.8 + rng.uniform(-wander, wander))
        for s in range(-12, 13)
    ]
    c.polygon(ground(mound), hill, scale(hill, 0.65), dabs=24)
    stone = jitter(rng, rng.choice((rgb("b8b0a4"), rgb("d8ccb4"), rgb("9a98a0"), rgb("e6e0d8"))), 8)
    roof = jitter(rng, rng.choice((rgb("4f6a90"), rgb("a04a3f"), rgb("5a5468"), rgb("3f7a72"))), 8)
    _keep(c, x, base, size, stone, roof)
    kind = rng.random()
    if kind < 0.35:
        water(c, rng.uniform(84, 90), 100, rng.choice(WATERS), ripples=14)
    elif kind < 0.7:
        pine_row(c, 98, 15, 8)
    else:
        road(c, x, base + 2, rgb("d8c49c"), near=rng.uniform(30, 70), width=16)
        grove(c, 97, 13, 5)
    weather(c, base + 6, 0.35)


def _keep(c: Canvas, x: float, base: float, size: float, stone: Colour, roof: Colour) -> None:
    """Paint the castle's keep, its towers, curtain wall and gate."""
    rng = c.rng
    towers = [
        (rng.uniform(-7, 7), rng.uniform(34, 42), 4.2),
        (-14, rng.uniform(22, 31), 3.2),
        (13, rng.uniform(22, 31), 3.2),
    ]
    battlement(c, x - 11 * size, x + 11 * size, base - 17 * size, base, stone)
    for dx, tall, half in towers:
        tower(c, x + dx * size, base, half * size, tall * size, stone, roof)
    battlement(c, x - 23 * size, x + 23 * size, base - 9 * size, base + 2, scale(stone, 0.95))
    for side in (-23, 23):
        tower(c, x + side * size, base + 3, 3.6 * size, rng.uniform(16, 21) * size, stone, roof)
    gate = [(x - 2.6 * size, base + 2), (x - 2.6 * size, base - 3 * size), (x, base - 6 * size)]
    c.polygon([*gate, (x + 2.6 * size, base - 3 * size), (x + 2.6 * size, base + 2)], rgb("4a3830"))


def battlement(
    c: Canvas, left: float, right: float, top: float, foot: float, stone: Colour
) -> None:
    """Paint a crenellated wall."""
    teeth = max(3, round((right - left) / 3.2))
    crown: list[Point] = []
    for step in range(teeth):
        x0, x1 = (left + (right - left) * (step + s) / teeth for s in (0.0, 0.55))
        x2 = left + (right - left) * (step + 1) / teeth
        crown += [(x0, top - 1.7), (x1, top - 1.7), (x1, top), (x2, top)]
    c.polygon([*crown, (right, foot), (left, foot)], stone, scale(stone, 0.75), dabs=5)


def tower(
    c: Canvas, x: float, base: float, half: float, tall: float, stone: Colour, roof: Colour
) -> None:
    """Paint a round tower with a pointed roof and a flag."""
    rng = c.rng
    top = base - tall
    c.rect(x - half, top, x + half, base, stone, scale(stone, 0.82))
    c.rect(x + half * 0.25, top, x + half, base, scale(stone, 0.7), scale(stone, 0.6), pen=False)
    for share in (0.22, 0.5):
        window(c, x - half * 0.25, top + tall * share, half * 0.17, half * 0.4)
    tip = (x, top - half * rng.uniform(2.6, 3.4))
    c.polygon([(x - half * 1.3, top), tip, (x + half * 1.3, top)], roof)
    c.polygon([tip, (x + half * 1.3, top), (x + half * 0.2, top)], scale(roof, 0.68), pen=False)
    if rng.random() < 0.6:
        y = tip[1]
        c.line([tip, (x, y - 4)], rgb("5a4a40"), 0.4)
        c.polygon([(x, y - 4), (x + 4, y - 3), (x, y - 1.8)], rgb("d8453a"))


def lighthouse(c: Canvas) -> None:
    """Paint a lighthouse on a headland above the sea."""
    rng = c.rng
    horizon = rng.uniform(48, 64)
    sky(c, horizon, birds=0.6)
    water(c, horizon, 100, rng.choice(WATERS))
    if rng.random() < 0.35:
        c.polygon(ground(ridge(rng, horizon + 1, 7, 0.5), horizon + 1), ROCK, depth=0.75)
    if rng.random() < 0.5:
        boat(c, rng.uniform(68, 92), horizon + rng.uniform(3, 10), rng.uniform(5, 8))
    x, foot = rng.uniform(24, 52), rng.uniform(66, 76)
    stone = jitter(rng, rng.choice((ROCK, rgb("8a7460"), rgb("6a6670"))), 8)
    end = x + rng.uniform(20, 34)
    cliff = [
        (-3, foot - rng.uniform(-2, 6)),
        (x - 12, foot),
        (x + 12, foot + 1),
        (end - 6, foot + 6),
    ]
    cliff += [(end, foot + 14), (end + 3, foot + 21), (end + 8, 103)]
    c.polygon([*cliff, (-3, 103)], stone, scale(stone, 0.55), dabs=30)
    green = rng.choice(GRASSES)
    turf = [*cliff[:5], (end - 8, foot + 11), (x + 6, foot + 7), (x - 14, foot + 9), (-3, foot + 7)]
    c.polygon(turf, green, scale(green, 0.75), dabs=12)
    foam = [
        (end + 4 + s * 3, 100 - rng.uniform(0, 4), rng.uniform(2, 5), rng.uniform(1, 2.4))
        for s in range(4)
    ]
    c.blob(foam, WHITE, alpha=0.85, soft=1.5)
    if rng.random() < 0.6:
        house(c, x + rng.choice((-14, 11)), foot + 3, rng.uniform(8, 11))
    _light_tower(c, x, foot + 2, rng.uniform(40, 52))
    rocks(c, 100, 3, 6, stone)
    weather(c, horizon, 0.3)


def _light_tower(c: Canvas, x: float, foot: float, tall: float) -> None:
    """Paint the tapering tower with its stripes, gallery and lamp."""
    rng = c.rng
    wide, thin = tall * 0.125, tall * 0.075
    top = foot - tall
    paint = rng.choice((rgb("d0402f"), rgb("d0402f"), rgb("2f4f86"), rgb("30343c"), rgb("f4efe6")))
    bands = rng.choice((5, 7))
    for band in range(bands):
        upper, lower = band / bands, (band + 1) / bands
        a, b = thin + (wide - thin) * upper, thin + (wide - thin) * lower
        y0, y1 = top + tall * upper, top + tall * lower
        coat = paint if band % 2 == 0 else rgb("f8f4ea")
        c.polygon([(x - a, y0), (x + a, y0), (x + b, y1), (x - b, y1)], coat)
    shade = [(x + thin * 0.3, top), (x + thin, top), (x + wide, foot), (x + wide * 0.3, foot)]
    c.polygon(shade, rgb("20304a"), alpha=0.3)
    for share in (0.35, 0.7):
        window(c, x - thin * 0.2, top + tall * share, 0.6, 1.1)
    c.rect(x - thin * 1.45, top - 1, x + thin * 1.45, top + 0.8, rgb("3a3f48"))
    lamp_y = top - 4
    if c.mood.dark or c.mood.name in ("overcast", "mist", "gloom") or rng.random() < 0.3:
        strength = 0.34 if c.mood.dark else 0.25
        for side in (-1, 1):
            beam = [(x, lamp_y), (x + side * 90, lamp_y - 13), (x + side * 90, lamp_y + 9)]
            c.polygon(beam, rgb("fff2b8"), alpha=strength, glow=True)
    c.rect(x - thin * 0.75, top - 7, x + thin * 0.75, top - 1, rgb("fff0a8"), glow=True)
    c.line([(x, top - 7), (x, top - 1)], rgb("3a3f48"), 0.5)
    cap = rgb("a8342a") if paint[0] > 150 else rgb("30343c")
    c.polygon([(x - thin * 1.1, top - 7), (x, top - 11.5), (x + thin * 1.1, top - 7)], cap)
    c.halo(x, lamp_y, 13, rgb("fff4c0"), 0.75)
