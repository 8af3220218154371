"""Skies and weather: gradients, sun and moon, clouds, stars, birds, rain, snow and mist."""

from __future__ import annotations

import math

from ipl_scenes.canvas import Canvas, Oval, Point
from ipl_scenes.palettes import Colour, mix, rgb, scale

WHITE = rgb("ffffff")


def sky(
    c: Canvas, horizon: float, *, sun: float = 0.6, clouds: float = 0.75, birds: float = 0.3
) -> None:
    """Paint the sky down to the horizon; the numbers are the chances of what may be in it."""
    rng = c.rng
    c.wash(0, 100, (*c.mood.sky, c.mood.sky[2]) if horizon < 50 else c.mood.sky)
    c.wash(0, max(horizon, 5) + 3, c.mood.sky)
    if c.night:
        stars(c, rng.randint(15, 45), horizon)
    if rng.random() < sun or c.night:
        sun_disc(c, rng.uniform(14, 86), rng.uniform(10, max(14, horizon * 0.6)))
    if rng.random() < clouds:
        if rng.random() < 0.6:
            cumulus_bank(c, horizon)
        else:
            streaks(c, horizon)
    if rng.random() < birds:
        flock(c, horizon)


def sun_disc(
    c: Canvas, x: float, y: float, radius: float | None = None, *, moon: bool | None = None
) -> None:
    """Paint the sun with its glow, or at night the moon, and remember where it is."""
    size = c.rng.uniform(3.2, 6.0) if radius is None else radius
    moon = c.night if moon is None else moon
    colour = c.mood.sun
    c.sun = (x, y)
    c.halo(x, y, size * 7, colour, 0.5)
    c.halo(x, y, size * 3, colour, 0.6)
    if c.ink is not None and not moon:
        # A pencil has no glow; rays say the same.
        for step in range(20):
            angle, reach = step * math.pi / 10, size * (1.9 if step % 2 else 2.5)
            dx, dy = math.cos(angle), -math.sin(angle)
            ray = [(x + dx * size * 1.35, y + dy * size * 1.35), (x + dx * reach, y + dy * reach)]
            c.line(ray, colour, 0.5, glow=True)
    if moon and c.rng.random() < 0.4:
        rim = [math.pi * (0.5 + step / 12) for step in range(13)]
        outer = [(x + size * math.cos(a), y - size * math.sin(a)) for a in rim]
        inner = [(x + size * 0.45 * math.cos(a), y - size * math.sin(a)) for a in reversed(rim)]
        c.polygon([*outer, *inner], colour, glow=True)
        return
    c.ellipse(x, y, size, size, colour, glow=True)
    if moon:
        for dx, dy, spot in ((-0.3, -0.2, 0.22), (0.25, 0.3, 0.3), (0.3, -0.4, 0.15)):
            where = (x + dx * size, y + dy * size, spot * size, spot * size)
            c.ellipse(*where, scale(colour, 0.88), glow=True, pen=False)


def cloud(
    c: Canvas, x: float, y: float, width: float, light: Colour, shade: Colour, alpha: float = 0.95
) -> None:
    """Paint one heaped cloud with a flat base at `y`."""
    rng = c.rng
    ovals: list[Oval] = []
    puffs = rng.randint(4, 7)
    for step in range(puffs):
        along = (step + 0.5) / puffs * 2 - 1
        bulge = (1 - along * along) * rng.uniform(0.6, 1.0) + 0.18
        radius = width * 0.2 * bulge + width * 0.05
        ovals.append((x + along * width * 0.42, y - radius * 0.5, radius * 1.25, radius))
    c.blob(ovals, light, shade, alpha=alpha, floor=y, soft=1.0)


def _cloud_colours(c: Canvas) -> tuple[Colour, Colour]:
    """Returns the noon colours of a cloud's lit top and of its shaded base."""
    if c.night:
        return rgb("9aa6c8"), rgb("5f6f98")
    return WHITE, mix(rgb("d5dde8"), c.mood.sky[1], 0.45)


def cumulus_bank(c: Canvas, horizon: float) -> None:
    """Paint a few heaped clouds, smaller towards the horizon."""
    rng = c.rng
    light, shade = _cloud_colours(c)
    for _ in range(rng.randint(1, 4)):
        height = rng.uniform(0.15, 0.85)
        width = rng.uniform(14, 44) * (1.15 - height * 0.7)
        cloud(c, rng.uniform(0, 100), horizon * height, width, light, shade)


def streaks(c: Canvas, horizon: float) -> None:
    """Paint long thin clouds."""
    rng = c.rng
    light, _ = _cloud_colours(c)
    for _ in range(rng.randint(3, 7)):
        x, y = rng.uniform(0, 100), horizon * rng.uniform(0.1, 0.9)
        reach, thick = rng.uniform(10, 34), rng.uniform(0.5, 1.6)
        ovals = [(x, y, reach, thick), (x + reach * 0.4, y - thick * 0.8, reach * 0.5, thick)]
        c.blob(ovals, light, alpha=rng.uniform(0.35, 0.75), soft=1.5)


def stars(c: Canvas, count: int, horizon: float) -> None:
    """Scatter stars above the horizon, a few of them bright."""
    rng = c.rng
    for _ in range(count):
        x, y = rng.uniform(0, 100), rng.uniform(0, horizon)
        size = 0.3 + 0.6 * rng.random() ** 4
        # A pencil leaves a star out of the hatching, which takes more room than a dot of paint.
        size *= 1.0 if c.ink is None else 1.9
        shade = rng.choice((WHITE, rgb("ffeecb"), rgb("cfe0ff")))
        c.ellipse(x, y, size, size, shade, alpha=rng.uniform(0.45, 0.9), glow=True)


def flock(c: Canvas, horizon: float) -> None:
    """Paint some distant birds."""
    rng = c.rng
    x, y = rng.uniform(15, 85), rng.uniform(0.2, 0.7) * horizon
    for _ in range(rng.randint(3, 6)):
        bx, by, span = x + rng.uniform(-14, 14), y + rng.uniform(-6, 6), rng.uniform(1.2, 2.4)
        wings: list[Point] = [(bx - span, by - span * 0.5), (bx - span * 0.4, by - span * 0.55)]
        wings += [(bx, by), (bx + span * 0.4, by - span * 0.55), (bx + span, by - span * 0.5)]
        c.line(wings, rgb("3a3f4a"), 0.45)


def rain(c: Canvas, amount: int) -> None:
    """Paint slanting rain over the whole image."""
    rng = c.rng
    slant = rng.uniform(-0.35, 0.35)
    for _ in range(amount):
        x, y, length = rng.uniform(-10, 110), rng.uniform(-5, 100), rng.uniform(4, 10)
        ends = [(x, y), (x + slant * length, y + length)]
        c.line(ends, rgb("dfe8f0"), 0.35, alpha=rng.uniform(0.15, 0.4), glow=True)


def snowfall(c: Canvas, amount: int) -> None:
    """Paint falling snow over the whole image."""
    rng = c.rng
    for _ in range(amount):
        size = rng.uniform(0.3, 0.9)
        spot = (rng.uniform(0, 100), rng.uniform(0, 100))
        c.ellipse(*spot, size, size, WHITE, alpha=rng.uniform(0.4, 0.85), pen=False)


def weather(c: Canvas, horizon: float, chance: float = 0.25) -> None:
    """Lay mist on the horizon or, under a grey sky, rain over the image, now and then."""
    rng = c.rng
    if c.mood.name in ("overcast", "gloom") and rng.random() < 0.5:
        rain(c, rng.randint(30, 70))
    elif rng.random() < chance:
        c.veil(horizon + rng.uniform(-3, 8), rng.uniform(8, 16), c.mood.haze, rng.uniform(0.3, 0.7))
