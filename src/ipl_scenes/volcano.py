"""Volcanoes: the cone, its smoke and its lava."""

from __future__ import annotations

import math

from ipl_scenes.canvas import Canvas, Point
from ipl_scenes.land import SNOW, WATERS, ground, hills, ridge, rocks, water
from ipl_scenes.palettes import jitter, mix, rgb, scale
from ipl_scenes.plants import grove, palm
from ipl_scenes.skies import WHITE, sky


def volcano(c: Canvas) -> None:
    """Paint a cone with a crater, its smoke and, when it erupts, its lava."""
    rng = c.rng
    base = rng.uniform(66, 84)
    sky(c, base - 12, sun=0.35, clouds=0.4)
    if rng.random() < 0.5:
        c.polygon(ground(ridge(rng, base, rng.uniform(10, 20), 0.5)), rgb("5f6a78"), depth=0.7)
    x, tall = rng.uniform(36, 64), rng.uniform(33, 47)
    wide, mouth = tall * rng.uniform(0.85, 1.15), rng.uniform(5, 9)
    erupts = rng.random() < 0.7
    smoke(c, x, base - tall, rng.uniform(0.8, 1.3), erupts)
    cone(c, x, base, wide, tall, mouth, erupts)
    kind = rng.random()
    if kind < 0.35:
        water(c, base, 100, rng.choice(WATERS), ripples=18)
        if erupts:
            c.halo(x, base + 4, 24, rgb("ff7a2f"), 0.4)
    elif kind < 0.7:
        hills(c, base + 3, 94, rgb("4f7a48"), 3, far=0.4, height=8)
        for _ in range(rng.randint(1, 4)):
            palm(c, rng.uniform(0, 100), 100, rng.uniform(16, 34))
        grove(c, 98, 11, 4)
    else:
        hills(c, base + 3, 94, rgb("5a4a4c"), 3, far=0.4, height=9)
        rocks(c, 95, 5, 7, rgb("54484c"))


def smoke(c: Canvas, x: float, y: float, size: float, hot: bool) -> None:
    """Paint the plume above a crater, lit from below when the volcano erupts."""
    rng = c.rng
    drift = rng.uniform(-1.0, 1.0)
    ash = rng.choice((rgb("6a6068"), rgb("8f8a90"), rgb("c8c4c4"), rgb("4c464e")))
    for step in range(9, -1, -1):
        share = step / 9
        radius = (4 + 13 * share) * size
        middle = (x + drift * 34 * share * share, y - 2 - 42 * share)
        ovals = [
            (
                middle[0] + rng.uniform(-1, 1) * radius * 0.6,
                middle[1] + rng.uniform(-2, 2),
                radius * s,
                radius * s * 0.8,
            )
            for s in (0.55, 0.7, 0.85)
        ]
        low = mix(scale(ash, 0.7), rgb("e8703a"), 0.45 * (1 - share) if hot else 0.0)
        c.blob(ovals, mix(ash, WHITE, 0.25 * share), low, soft=1.0, alpha=0.92)


def cone(
    c: Canvas, x: float, base: float, wide: float, tall: float, mouth: float, hot: bool
) -> None:
    """Paint the mountain itself, with lava from the crater when it is hot."""
    rng = c.rng
    stone = jitter(rng, rng.choice((rgb("5c4a50"), rgb("6a5648"), rgb("4c4c5c"))), 8)
    left: list[Point] = []
    right: list[Point] = []
    for step in range(11):
        share = step / 10
        half = mouth + (wide - mouth) * share**1.5
        left.append((x - half + rng.uniform(-0.7, 0.7), base - tall * (1 - share)))
        right.append((x + half + rng.uniform(-0.7, 0.7), base - tall * (1 - share)))
    rim = [(x + mouth * s, base - tall + d) for s, d in ((0.5, 1.6), (0.0, 2.4), (-0.5, 1.4))]
    c.polygon([*left, *reversed(right), *rim], scale(stone, 1.1), stone, depth=0.12, dabs=20)
    dark = [rim[1], *right, (x + wide * 0.1, base)]
    c.polygon(dark, scale(stone, 0.66), scale(stone, 0.8), depth=0.12, pen=False)
    if not hot:
        cap = [
            *left[:3],
            (x - mouth * 0.5, base - tall * 0.84),
            (x + 1, base - tall * 0.74),
            *right[2::-1],
            *rim,
        ]
        c.polygon(cap, mix(SNOW, stone, rng.choice((0.05, 0.75))), depth=0.1)
        return
    top = base - tall
    c.halo(x, top, 20, rgb("ff8a30"), 0.85)
    for _ in range(rng.randint(2, 4)):
        way = rng.uniform(-0.75, 0.75)
        reach = rng.uniform(0.45, 1.0)
        flow = [
            (
                x
                + way * (mouth * 0.7 + (wide - mouth) * (reach * s / 6) ** 1.4)
                + rng.uniform(-1, 1),
                top + 2 + tall * reach * s / 6,
            )
            for s in range(7)
        ]
        c.line(flow, rgb("e8401c"), 2.6, glow=True)
        c.line(flow, rgb("ffb83c"), 1.1, glow=True)
    for _ in range(rng.randint(8, 18)):
        angle, reach = rng.uniform(0.5, 2.64), rng.uniform(4, 17)
        spot = (x + math.cos(angle) * reach, top - math.sin(angle) * reach)
        c.line(
            [(x + (spot[0] - x) * 0.6, top + (spot[1] - top) * 0.6), spot],
            rgb("ff9a30"),
            0.8,
            glow=True,
        )
        c.ellipse(*spot, 0.8, 0.8, rgb("ffd86a"), glow=True)
    c.polygon([left[0], *reversed(rim), right[0]], rgb("ffc850"), glow=True)
