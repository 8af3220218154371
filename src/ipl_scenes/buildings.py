"""Small things that people made: houses, cabins, churches, boats, piers, parasols and fences."""

from __future__ import annotations

from ipl_scenes.canvas import Canvas
from ipl_scenes.palettes import Colour, jitter, mix, rgb, scale

ROOFS = (rgb("c2553d"), rgb("a8483c"), rgb("b8743f"), rgb("6a5a70"), rgb("8a4a3a"))
WALLS = (rgb("f2e6cc"), rgb("e8d2b0"), rgb("f4efe4"), rgb("e0b890"), rgb("d8dcd8"))
LAMP = rgb("ffd474")


def window(c: Canvas, x: float, y: float, width: float, height: float) -> None:
    """Paint a window, lit in the dark."""
    if c.mood.dark and c.rng.random() < 0.75:
        c.rect(x - width, y - height, x + width, y + height, LAMP, glow=True, pen=False)
    else:
        c.rect(x - width, y - height, x + width, y + height, rgb("4a5a6c"), pen=width > 0.8)


def house(
    c: Canvas,
    x: float,
    y: float,
    size: float,
    *,
    wall: Colour | None = None,
    roof: Colour | None = None,
    depth: float = 0.0,
    snow: bool = False,
) -> None:
    """Paint a gabled house seen at an angle, standing on `y`."""
    rng = c.rng
    wall = jitter(rng, rng.choice(WALLS), 8) if wall is None else wall
    roof = jitter(rng, rng.choice(ROOFS), 10) if roof is None else roof
    tall, gable, side = size * rng.uniform(0.6, 0.8), size * 0.42, size * rng.uniform(0.5, 0.8)
    left, middle, right = x - gable, x + gable, x + gable + side
    top = y - tall
    tip = (x, top - size * rng.uniform(0.45, 0.6))
    end = (tip[0] + side, tip[1])
    c.polygon(
        [(middle, y), (middle, top), (right, top), (right, y)], scale(wall, 0.74), depth=depth
    )
    c.polygon(
        [(left, y), (left, top), tip, (middle, top), (middle, y)],
        wall,
        scale(wall, 0.88),
        depth=depth,
    )
    eave = size * 0.07
    top_paint = rgb("f2f7fb") if snow else roof
    c.polygon(
        [tip, end, (right + eave, top + eave), (middle + eave, top + eave)],
        top_paint,
        scale(top_paint, 0.85),
        depth=depth,
    )
    c.line(
        [(left - eave, top + eave), tip, (middle + eave, top + eave)],
        scale(top_paint, 0.8),
        size * 0.09,
        depth=depth,
    )
    if rng.random() < 0.5:
        c.rect(
            tip[0] + side * 0.5,
            tip[1] - size * 0.16,
            tip[0] + side * 0.5 + size * 0.12,
            tip[1] + size * 0.2,
            scale(roof, 0.7),
            depth=depth,
        )
    if size > 5:
        window(c, x - gable * 0.4, y - tall * 0.62, size * 0.07, size * 0.1)
        window(c, x + gable * 0.42, y - tall * 0.62, size * 0.07, size * 0.1)
        window(c, middle + side * 0.5, y - tall * 0.55, size * 0.09, size * 0.09)
        door = mix(roof, rgb("4a3428"), 0.6)
        c.rect(x - size * 0.08, y - tall * 0.4, x + size * 0.08, y, door, depth=depth)


def cabin(c: Canvas, x: float, y: float, size: float, *, snow: bool = False) -> None:
    """Paint a wooden cabin with a smoking chimney."""
    house(c, x, y, size, wall=rgb("9a6a45"), roof=rgb("5f4238"), snow=snow)
    puff = [
        (
            x + size * (0.6 + 0.14 * s),
            y - size * (1.5 + 0.26 * s),
            size * 0.1 * (s + 1),
            size * 0.09 * (s + 1),
        )
        for s in range(3)
    ]
    c.blob(puff, rgb("e8e8ea"), alpha=0.5, soft=2.0)


def church(c: Canvas, x: float, y: float, size: float, *, depth: float = 0.0) -> None:
    """Paint a church: a nave and a tower with a pointed spire."""
    wall = jitter(c.rng, rgb("f0e6d4"), 8)
    roof = jitter(c.rng, rgb("6f5a6a"), 16)
    house(c, x + size * 0.45, y, size * 0.8, wall=wall, roof=roof, depth=depth)
    half, top = size * 0.2, y - size * 1.5
    c.rect(x - half, top, x + half, y, wall, scale(wall, 0.85), depth=depth)
    c.rect(x + half * 0.2, top, x + half, y, scale(wall, 0.72), depth=depth, pen=False)
    c.polygon(
        [(x - half * 1.2, top), (x, top - size * 0.95), (x + half * 1.2, top)], roof, depth=depth
    )
    c.polygon(
        [(x, top - size * 0.95), (x + half * 1.2, top), (x, top)],
        scale(roof, 0.7),
        depth=depth,
        pen=False,
    )
    window(c, x, top + size * 0.28, half * 0.3, size * 0.12)


def boat(c: Canvas, x: float, y: float, size: float) -> None:
    """Paint a sailing boat whose hull floats on `y`."""
    rng = c.rng
    sail = rng.choice((rgb("fbf6ea"), rgb("f2e2c0"), rgb("e0704f"), rgb("f4f4f4")))
    c.polygon(
        [
            (x - 0.1 * size, y - size * 1.5),
            (x - 0.1 * size, y - size * 0.2),
            (x + size * 0.7, y - size * 0.2),
        ],
        sail,
        scale(sail, 0.85),
    )
    c.polygon(
        [
            (x - size * 0.18, y - size * 1.3),
            (x - size * 0.18, y - size * 0.2),
            (x - size * 0.6, y - size * 0.2),
        ],
        scale(sail, 0.86),
    )
    hull = rng.choice((rgb("7a3f30"), rgb("2f4a68"), rgb("f0ece0")))
    c.polygon(
        [
            (x - size * 0.7, y - size * 0.18),
            (x + size * 0.75, y - size * 0.18),
            (x + size * 0.5, y + size * 0.08),
            (x - size * 0.5, y + size * 0.08),
        ],
        hull,
    )
    c.line(
        [(x - size * 0.5, y + size * 0.2), (x + size * 0.4, y + size * 0.2)], sail, 0.5, alpha=0.4
    )


def canoe(c: Canvas, x: float, y: float, size: float) -> None:
    """Paint a rowing boat on still water."""
    hull = c.rng.choice((rgb("a8452f"), rgb("8a5a34"), rgb("35607a")))
    c.polygon(
        [
            (x - size, y - size * 0.28),
            (x + size, y - size * 0.28),
            (x + size * 0.7, y + size * 0.1),
            (x - size * 0.7, y + size * 0.1),
        ],
        hull,
        scale(hull, 0.6),
    )
    c.line(
        [(x - size * 0.9, y - size * 0.2), (x + size * 0.9, y - size * 0.2)], scale(hull, 1.35), 0.7
    )
    c.line(
        [(x - size * 0.6, y + size * 0.3), (x + size * 0.6, y + size * 0.3)],
        scale(hull, 0.5),
        0.8,
        alpha=0.4,
    )


def parasol(c: Canvas, x: float, y: float, size: float) -> None:
    """Paint a striped beach umbrella over a towel."""
    rng = c.rng
    paint = rng.choice((rgb("e2503f"), rgb("f0a830"), rgb("2f86b8"), rgb("e86a92"), rgb("3fa08a")))
    top = y - size
    towel = rng.choice((rgb("f6f0e4"), rgb("3f8fb0"), rgb("f0c84a")))
    c.polygon(
        [
            (x + size * 0.1, y),
            (x + size * 0.9, y),
            (x + size * 1.1, y + size * 0.22),
            (x + size * 0.2, y + size * 0.22),
        ],
        towel,
    )
    c.line([(x, top), (x + size * 0.06, y + size * 0.1)], rgb("f2ece0"), 0.7)
    rim = [(x + size * s, top + size * 0.3) for s in (-0.75, -0.38, 0.0, 0.38, 0.75)]
    dome = (x, top - size * 0.22)
    bulge = [(x - size * 0.55, top), (x - size * 0.28, top - size * 0.14)]
    far = [(x + size * 0.28, top - size * 0.14), (x + size * 0.55, top)]
    c.polygon([rim[0], bulge[0], bulge[1], dome, far[0], far[1], rim[4]], paint)
    c.polygon(
        [rim[1], (x - size * 0.2, top - size * 0.08), dome, (x, top), rim[2]],
        rgb("fbf6ea"),
        pen=False,
    )
    c.polygon(
        [rim[3], (x + size * 0.3, top - size * 0.02), far[0], far[1], rim[4]],
        rgb("fbf6ea"),
        pen=False,
    )


def fence(c: Canvas, left: float, right: float, y: float, height: float) -> None:
    """Paint a wooden fence."""
    wood = rgb("a08060")
    posts = max(2, round((right - left) / 6))
    for step in range(posts + 1):
        x = left + (right - left) * step / posts
        c.line([(x, y), (x, y - height)], wood, 0.9)
    for level in (0.4, 0.8):
        c.line([(left, y - height * level), (right, y - height * level)], wood, 0.7)


def pier(c: Canvas, x: float, far: float) -> None:
    """Paint a wooden jetty that leads from the viewer into the water."""
    wood = jitter(c.rng, rgb("9a7450"), 10)
    c.polygon([(x - 4, far), (x + 4, far), (x + 15, 102), (x - 13, 102)], wood, scale(wood, 1.15))
    for step in range(9):
        share = (step / 9) ** 1.5
        y = far + (101 - far) * share
        c.line([(x - 4 - 9 * share, y), (x + 4 + 11 * share, y)], scale(wood, 0.6), 0.5)
    for side in (-4.5, 4.5):
        c.line([(x + side, far - 5), (x + side, far + 4)], scale(wood, 0.7), 1.4)
