"""Spectacles of the sky: sunset, starry night, rainbow and thunderstorm."""

from __future__ import annotations

import math

from PIL import ImageDraw

from ipl_scenes.buildings import boat, house
from ipl_scenes.canvas import UNIT, Canvas, Oval, Point
from ipl_scenes.land import (
    GRASSES,
    WATERS,
    ground,
    hills,
    mountains,
    ridge,
    ripple,
    road,
    swell,
    water,
)
from ipl_scenes.landmarks import skyscraper
from ipl_scenes.palettes import jitter, mix, rgb, scale
from ipl_scenes.plants import flowers, grass, grove, palm, pine_row, tree
from ipl_scenes.skies import WHITE, flock, rain, sky, stars, sun_disc

BOW = ("e8483f", "f58a38", "f8d848", "5fbf5a", "3f8fd8", "5a58b8", "9050b0")


def sunset(c: Canvas) -> None:
    """Paint a low sun in a burning sky, over the sea or behind dark land."""
    rng = c.rng
    horizon = rng.uniform(52, 70)
    c.wash(0, horizon + 3, c.mood.sky)
    if c.night:
        stars(c, 40, horizon * 0.6)
    x, radius = rng.uniform(25, 75), rng.uniform(6, 11)
    sun_disc(c, x, horizon - (0 if c.night else rng.uniform(-2, 10)), radius, moon=False)
    for _ in range(rng.randint(3, 7)):
        cx, cy = rng.uniform(0, 100), horizon * rng.uniform(0.1, 0.8)
        reach, thick = rng.uniform(12, 36), rng.uniform(0.7, 2.4)
        bands: list[Oval] = [
            (cx, cy, reach, thick),
            (cx - reach * 0.4, cy + thick, reach * 0.6, thick),
        ]
        under = mix(c.mood.sky[2], c.mood.sun, 0.3)
        c.blob(
            bands,
            scale(c.mood.haze, 1.5),
            scale(under, 1.6),
            alpha=rng.uniform(0.4, 0.75),
            soft=1.5,
        )
    if rng.random() < 0.5:
        flock(c, horizon)
    kind = rng.random()
    if kind < 0.5:
        water(c, horizon, 100, mix(rng.choice(WATERS), c.mood.sky[1], 0.55))
        if rng.random() < 0.5:
            boat(c, rng.uniform(15, 85), horizon + rng.uniform(3, 12), rng.uniform(6, 10))
        if rng.random() < 0.5:
            shore = ground(swell(rng, 100, rng.uniform(6, 14), 0.6))
            c.polygon(shore, rgb("3c2c38"))
            palm(c, rng.choice((10, 88)), 97, rng.uniform(36, 56))
    elif kind < 0.8:
        mountains(c, horizon + 5, rng.uniform(8, 16), depth=0.7, snow=0.0)
        hills(c, horizon + 6, 94, rgb("6a5a58"), 4, far=0.6, height=9)
        grove(c, 97, rng.uniform(12, 24), 3)
    else:
        hills(c, horizon + 3, 92, rgb("7a5a48"), 3, far=0.5, height=4)
        tree(c, rng.choice((22, 76)), 94, rng.uniform(32, 44), rgb("4a3a34"))
        grass(c, 102, 40, rgb("4a3434"), height=9)


def starry_night(c: Canvas) -> None:
    """Paint a sky full of stars with the Milky Way above dark land."""
    rng = c.rng
    horizon = rng.uniform(66, 84)
    c.wash(0, horizon + 3, c.mood.sky)
    _milky_way(c)
    stars(c, rng.randint(110, 190), horizon)
    for _ in range(rng.randint(4, 9)):
        x, y, size = rng.uniform(3, 97), rng.uniform(3, horizon - 8), rng.uniform(1.2, 2.6)
        c.halo(x, y, size * 2, rgb("dfe8ff"), 0.7)
        rays = [(size if step % 2 == 0 else size * 0.22, step * math.pi / 4) for step in range(8)]
        c.polygon([(x + r * math.cos(a), y + r * math.sin(a)) for r, a in rays], WHITE, glow=True)
    if rng.random() < 0.4:
        x, y, slope = rng.uniform(15, 70), rng.uniform(8, 30), rng.uniform(0.2, 0.6)
        for step in range(8):
            part = [
                (x + step * 2, y + step * 2 * slope),
                (x + step * 2 + 2, y + (step * 2 + 2) * slope),
            ]
            c.line(part, WHITE, 0.25 + 0.06 * step, alpha=0.15 + 0.1 * step, glow=True)
    if rng.random() < 0.25:
        sun_disc(c, rng.uniform(12, 88), rng.uniform(10, 28), rng.uniform(3, 4.5), moon=True)
    dark = rgb("4a5a64")
    kind = rng.random()
    if kind < 0.35:
        c.polygon(ground(ridge(rng, horizon + 4, rng.uniform(10, 22), 0.52)), dark, depth=0.5)
        pine_row(c, 100, rng.uniform(14, 24), 12, colour=rgb("28403c"))
    elif kind < 0.65:
        c.polygon(ground(ridge(rng, horizon + 1, rng.uniform(8, 16), 0.5)), dark, depth=0.4)
        c.mirror(horizon, 1.2)
        c.veil(104, 60, scale(c.mood.sky[0], 0.8), 0.8)
        ripple(c, horizon + 1, 100, 16)
    else:
        hills(c, horizon + 2, 94, dark, 3, far=0.5, height=9)
        x = rng.uniform(20, 80)
        if rng.random() < 0.5:
            c.halo(x, 91, 14, rgb("ffb050"), 0.7)
            c.polygon([(x - 6, 95), (x, 86), (x + 6, 95)], rgb("ffb85a"), rgb("e87a30"), glow=True)
            c.polygon([(x - 1, 95), (x, 88), (x + 1.4, 95)], rgb("7a3a20"), glow=True)
        else:
            house(c, x, 92, 9)
        pine_row(c, 101, 12, 8, colour=rgb("28403c"))


def _milky_way(c: Canvas) -> None:
    """Paint a cloudy band of light across the sky."""
    rng = c.rng
    x, lean = rng.uniform(25, 75), rng.uniform(-0.7, 0.7)
    glow = rng.choice((rgb("8fa8e0"), rgb("b090d8"), rgb("7fc4d0")))
    for step in range(13):
        y = step * 7.5
        middle = x + lean * (y - 40)
        c.halo(middle + rng.uniform(-5, 5), y, rng.uniform(10, 20), glow, rng.uniform(0.18, 0.36))
        c.halo(
            middle + rng.uniform(-3, 3), y, rng.uniform(4, 8), rgb("f0e4f0"), rng.uniform(0.1, 0.3)
        )
    for _ in range(110):
        y = rng.uniform(0, 90)
        spread = rng.uniform(-1, 1) + rng.uniform(-1, 1)
        spot = (x + lean * (y - 40) + spread * 8, y)
        c.ellipse(*spot, 0.3, 0.3, WHITE, alpha=rng.uniform(0.3, 0.8), glow=True)


def rainbow(c: Canvas) -> None:
    """Paint a rainbow after rain, over fields, a lake or a village."""
    rng = c.rng
    horizon = rng.uniform(56, 72)
    sky(c, horizon, sun=0.0, clouds=0.9)
    c.veil(0, rng.uniform(30, 60), scale(c.mood.haze, 0.62), rng.uniform(0.3, 0.6))
    if rng.random() < 0.4:
        mountains(c, horizon + 3, rng.uniform(10, 20), depth=0.7)
    x, reach = rng.uniform(25, 75), rng.uniform(36, 56)
    arch = rng.uniform(0.85, 1.1)
    _bow(c, x, horizon + 4, reach, arch, rng.uniform(1.3, 2.0), 0.78)
    if rng.random() < 0.3:
        _bow(c, x, horizon + 4, reach + 17, arch, 1.0, 0.3)
    green = rng.choice(GRASSES)
    kind = rng.random()
    if kind < 0.25:
        water(c, horizon, 100, rng.choice(WATERS))
        pine_row(c, horizon + 1, 6, 16, depth=0.35)
    else:
        hills(c, horizon + 4, 92, green, 3, far=0.5, height=8)
        if kind < 0.5:
            for _ in range(rng.randint(1, 3)):
                house(c, rng.uniform(12, 82), rng.uniform(horizon + 12, 92), rng.uniform(6, 10))
        elif kind < 0.7:
            road(c, rng.uniform(35, 65), horizon + 6, rgb("d8c090"), width=18)
        grove(c, rng.uniform(horizon + 12, 96), 11, rng.randint(1, 5))
        if rng.random() < 0.5:
            flowers(c, horizon + 16, 101, 50)
    if rng.random() < 0.35:
        rain(c, 35)


def _bow(
    c: Canvas, x: float, y: float, reach: float, arch: float, band: float, strength: float
) -> None:
    """Paint the seven bands of a rainbow as a thin veil over the sky."""
    draw = ImageDraw.Draw(c.image, "RGBA")
    for step, code in enumerate(BOW):
        radius = reach - step * band
        red, green, blue = mix(rgb(code), c.mood.sky[1], 0.35 if c.night else 0.08)
        box = [
            (x - radius) * UNIT,
            (y - radius * arch) * UNIT,
            (x + radius) * UNIT,
            (y + radius * arch) * UNIT,
        ]
        paint = (round(red), round(green), round(blue), round(255 * strength))
        draw.arc(box, 180, 360, fill=paint, width=round(band * UNIT) + 1)
        if c.ink is not None:
            ImageDraw.Draw(c.ink).arc(box, 180, 360, fill=90, width=2)


def thunderstorm(c: Canvas) -> None:
    """Paint dark clouds, forked lightning and rain over the sea, the land or a town."""
    rng = c.rng
    horizon = rng.uniform(62, 78)
    c.wash(0, horizon + 3, c.mood.sky)
    _storm_clouds(c, horizon)
    bolts = [rng.uniform(15, 85) for _ in range(rng.randint(1, 3))]
    for number, x in enumerate(bolts):
        _lightning(c, x, rng.uniform(14, 26), horizon + 2, 1.5 if number == 0 else 0.8)
    dark = rgb("6a7268")
    kind = rng.random()
    if kind < 0.35:
        water(c, horizon, 100, rgb("4a6c80"), ripples=50)
        for step in range(5):
            crest = swell(rng, horizon + 6 + step * 6, 3, 2.5)
            c.line(crest, rgb("c8d8e0"), 0.5 + 0.2 * step, alpha=0.5)
        if rng.random() < 0.5:
            boat(c, rng.uniform(20, 80), horizon + 8, 8)
    elif kind < 0.75:
        hills(c, horizon + 3, 92, rng.choice((dark, rng.choice(GRASSES))), 3, far=0.6, height=8)
        grove(c, 95, 14, rng.randint(1, 5))
        if rng.random() < 0.5:
            house(c, rng.uniform(20, 75), rng.uniform(82, 92), 9)
    else:
        for depth, tall, count in ((0.5, 24, 14), (0.1, 28, 9)):
            for step in range(count):
                x = (step + rng.random()) * 100 / count
                skyscraper(
                    c, x, 102, 50 / count, 100 - horizon + tall * rng.uniform(0, 0.9), dark, depth
                )
    rain(c, rng.randint(60, 140))


def _storm_clouds(c: Canvas, horizon: float) -> None:
    """Paint rolls of heavy cloud, darkest at the top."""
    rng = c.rng
    for row in range(4):
        y = horizon * (0.52 - 0.15 * row)
        tone = scale(mix(c.mood.sky[1], c.mood.sky[2], 0.55 - 0.22 * row), 1.0 / 0.56)
        for _ in range(3):
            x = rng.uniform(-5, 105)
            ovals = [
                (
                    x + rng.uniform(-18, 18),
                    y + rng.uniform(-5, 3),
                    rng.uniform(9, 18),
                    rng.uniform(5, 9),
                )
                for _ in range(6)
            ]
            light = jitter(rng, tone, 8)
            c.blob(ovals, light, scale(light, 0.55), soft=2.0)


def _lightning(c: Canvas, x: float, top: float, foot: float, width: float) -> None:
    """Paint a forked bolt with its glow."""
    rng = c.rng
    bolt: list[Point] = [(x, top)]
    while bolt[-1][1] < foot:
        last = bolt[-1]
        bolt.append((last[0] + rng.uniform(-5.5, 5.5), last[1] + rng.uniform(3, 8)))
    c.halo(x, top, 30, c.mood.sun, 0.5)
    for px, py in bolt[::2]:
        c.halo(px, py, 8 * width, rgb("c8d0ff"), 0.35)
    branches = [bolt]
    for start in rng.sample(bolt[1:-1], min(3, len(bolt) - 2)):
        way = rng.choice((-1, 1))
        fork = [start]
        for _ in range(rng.randint(2, 4)):
            last = fork[-1]
            fork.append((last[0] + way * rng.uniform(2, 6), last[1] + rng.uniform(2, 6)))
        branches.append(fork)
    for number, branch in enumerate(branches):
        thick = width if number == 0 else width * 0.5
        c.line(branch, rgb("b8c4ff"), thick * 1.7, alpha=0.45, glow=True)
        c.line(branch, rgb("fffdf0"), thick, glow=True, pen=False)
    if c.ink is not None:
        # On paper a bolt is a white line between two dark ones.
        pen = ImageDraw.Draw(c.ink)
        for edge, lead in ((5, 40), (1, 255)):
            for branch in branches:
                path = [(px * UNIT, py * UNIT) for px, py in branch]
                pen.line(path, fill=lead, width=round(3 * width) + edge, joint="curve")
