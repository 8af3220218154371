"""A supersampled canvas in percent coordinates, with aerial perspective and a sketching pen."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from ipl_scenes.palettes import Colour, Mood, mix

SIZE = 96
OVERSAMPLE = 3
PIXELS = SIZE * OVERSAMPLE
UNIT = PIXELS / 100.0

Point = tuple[float, float]
Oval = tuple[float, float, float, float]


def _halo_mask() -> Image.Image:
    """Returns a round mask that falls off with the square of the distance from its centre."""
    falloff = ImageChops.invert(Image.radial_gradient("L")).resize((128, 128))
    # radial_gradient reaches 255 beyond the square's edge; the lowest values would show a frame.
    return falloff.point([round(255 * max(0.0, (v - 75) / 180) ** 2) for v in range(256)])


_HALO = _halo_mask()


class Canvas:
    """An image being painted; both axes run from 0 to 100, y points down.

    Every colour is given as it looks at noon from nearby; the canvas moves it into the image's
    light and, by its depth (0 near, 1 at the horizon), into the haze.
    """

    def __init__(self, rng: Random, mood: Mood, *, night: bool, pen: bool) -> None:
        self.rng = rng
        self.mood = mood
        self.night = night
        self.sun: Point | None = None
        self.frame = _frame(rng)
        self.image = Image.new("RGB", (PIXELS, PIXELS))
        self.ink = Image.new("L", (PIXELS, PIXELS), 255) if pen else None
        # The brush is kept because making one costs as much as drawing a small shape with it.
        self._brush = ImageDraw.Draw(self.image, "RGBA")

    def tint(self, colour: Colour, depth: float = 0.0) -> Colour:
        """Returns the colour as it looks in this image's light at this depth."""
        red, green, blue = colour
        if self.mood.dark:
            # Eyes lose colour in the dark, so a dark mood first greys what it then tints.
            grey = 0.3 * red + 0.59 * green + 0.11 * blue
            red, green, blue = mix(colour, (grey, grey, grey), 0.4 if self.night else 0.15)
        light = self.mood.ambient
        lit = (red * light[0], green * light[1], blue * light[2])
        return mix(lit, self.mood.haze, depth * self.mood.fog)

    def _shade(self, colour: Colour, depth: float, glow: bool) -> tuple[int, int, int]:
        """Returns the 8-bit colour to paint; what glows keeps its own colour."""
        red, green, blue = colour if glow else self.tint(colour, depth)
        return (
            min(255, max(0, round(red))),
            min(255, max(0, round(green))),
            min(255, max(0, round(blue))),
        )

    def polygon(
        self,
        points: Sequence[Point],
        colour: Colour,
        foot: Colour | None = None,
        *,
        depth: float = 0.0,
        alpha: float = 1.0,
        glow: bool = False,
        dabs: int = 0,
        pen: bool = True,
    ) -> None:
        """Paint a polygon, fading to `foot` at its bottom, with brush dabs."""
        corners = [(x * UNIT, y * UNIT) for x, y in points]
        paint = self._shade(colour, depth, glow)
        if foot is None and not dabs:
            self._brush.polygon(corners, fill=(*paint, round(255 * alpha)))
        else:
            box = _clip(corners)
            if box is None:
                return
            left, top, right, bottom = box
            mask = Image.new("L", (right - left, bottom - top))
            shifted = [(x - left, y - top) for x, y in corners]
            ImageDraw.Draw(mask).polygon(shifted, fill=round(255 * alpha))
            end = paint if foot is None else self._shade(foot, depth, glow)
            self._paste(mask, (left, top), paint, end, dabs)
        if self.ink is not None and pen and alpha > 0.9:
            draw = ImageDraw.Draw(self.ink)
            draw.polygon(corners, fill=255)
            draw.line([*corners, corners[0]], fill=self._lead(depth), width=2)

    def _paste(
        self,
        mask: Image.Image,
        corner: tuple[int, int],
        top: tuple[int, int, int],
        foot: tuple[int, int, int],
        dabs: int = 0,
    ) -> None:
        """Lay a vertical gradient with brush dabs on the image by a mask."""
        width, height = mask.size
        ramp = gradient((top, foot), width, height)
        if dabs:
            draw = ImageDraw.Draw(ramp, "RGBA")
            rng = self.rng
            for _ in range(dabs):
                x, y = rng.random() * width, rng.random() * height
                reach = rng.uniform(6, 26)
                tone = 255 if rng.random() < 0.5 else 0
                ends = (x - reach, y + rng.uniform(-3, 3), x + reach, y)
                draw.line(
                    ends, fill=(tone, tone, tone, rng.randint(6, 20)), width=rng.randint(2, 6)
                )
        self.image.paste(ramp, corner, mask)

    def _lead(self, depth: float) -> int:
        """Returns how dark the pen is at this depth: distant outlines are fainter."""
        return round(35 + 135 * min(1.0, depth))

    def rect(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        colour: Colour,
        foot: Colour | None = None,
        *,
        depth: float = 0.0,
        glow: bool = False,
        pen: bool = True,
    ) -> None:
        """Paint an upright rectangle."""
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.polygon(corners, colour, foot, depth=depth, glow=glow, pen=pen)

    def ellipse(
        self,
        x: float,
        y: float,
        across: float,
        down: float,
        colour: Colour,
        *,
        depth: float = 0.0,
        alpha: float = 1.0,
        glow: bool = False,
        pen: bool = True,
    ) -> None:
        """Paint an ellipse given by its centre and its two radii."""
        box = ((x - across) * UNIT, (y - down) * UNIT, (x + across) * UNIT, (y + down) * UNIT)
        paint = (*self._shade(colour, depth, glow), round(255 * alpha))
        self._brush.ellipse(box, fill=paint)
        if self.ink is not None and pen and alpha > 0.9:
            ImageDraw.Draw(self.ink).ellipse(box, fill=255, outline=self._lead(depth), width=2)

    def blob(
        self,
        ovals: Sequence[Oval],
        colour: Colour,
        foot: Colour | None = None,
        *,
        depth: float = 0.0,
        alpha: float = 1.0,
        floor: float | None = None,
        soft: float = 0.0,
        pen: bool = True,
    ) -> None:
        """Paint the union of ovals, cut flat at `floor`: clouds and foliage."""
        margin = 2 + round(3 * soft)
        corners = [(x + sx * a, y + sy * b) for x, y, a, b in ovals for sx, sy in _DIAGONALS]
        box = _clip([(x * UNIT, y * UNIT) for x, y in corners], margin)
        if box is None:
            return
        left, top, right, bottom = box
        if floor is not None:
            bottom = min(bottom, max(top + 1, round(floor * UNIT)))
        mask = Image.new("L", (right - left, bottom - top))
        draw = ImageDraw.Draw(mask)
        for x, y, a, b in ovals:
            x0, y0 = (x - a) * UNIT - left, (y - b) * UNIT - top
            draw.ellipse((x0, y0, x0 + 2 * a * UNIT, y0 + 2 * b * UNIT), fill=round(255 * alpha))
        if soft:
            mask = mask.filter(ImageFilter.BoxBlur(soft))
        paint = self._shade(colour, depth, False)
        end = paint if foot is None else self._shade(foot, depth, False)
        self._paste(mask, (left, top), paint, end)
        if self.ink is not None and pen and alpha > 0.7:
            self.ink.paste(255, (left, top), mask)
            edges = mask.filter(ImageFilter.FIND_EDGES)
            self.ink.paste(self._lead(depth), (left, top), edges)

    def line(
        self,
        points: Sequence[Point],
        colour: Colour,
        width: float,
        *,
        depth: float = 0.0,
        alpha: float = 1.0,
        glow: bool = False,
        pen: bool = True,
    ) -> None:
        """Paint a line of the given width in percent."""
        corners = [(x * UNIT, y * UNIT) for x, y in points]
        paint = (*self._shade(colour, depth, glow), round(255 * alpha))
        thick = max(1, round(width * UNIT))
        self._brush.line(corners, fill=paint, width=thick, joint="curve")
        if self.ink is not None and pen and alpha > 0.6:
            ImageDraw.Draw(self.ink).line(corners, fill=self._lead(depth), width=min(thick, 3))

    def halo(self, x: float, y: float, radius: float, colour: Colour, strength: float) -> None:
        """Add a soft round glow."""
        side = max(2, round(2 * radius * UNIT))
        mask = _HALO.resize((side, side), Image.Resampling.BILINEAR)
        mask = mask.point([round(v * strength) for v in range(256)])
        corner = (round((x - radius) * UNIT), round((y - radius) * UNIT))
        self.image.paste(self._shade(colour, 0.0, True), corner, mask)

    def wash(self, top: float, bottom: float, stops: Sequence[Colour]) -> None:
        """Fill a horizontal band with a vertical gradient of finished colours."""
        y0, y1 = round(top * UNIT), round(bottom * UNIT)
        shades = [self._shade(colour, 0.0, True) for colour in stops]
        ramp = gradient(shades, PIXELS, y1 - y0)
        self.image.paste(ramp, (0, y0))
        if self.ink is not None:
            self.ink.paste(255, (0, y0, PIXELS, y1))

    def veil(self, y: float, reach: float, colour: Colour, strength: float) -> None:
        """Lay a band of mist, strongest at `y`, over what is painted."""
        y0, y1 = max(0, round((y - reach) * UNIT)), min(PIXELS, round((y + reach) * UNIT))
        middle = y * UNIT
        away = np.abs(np.arange(y0, y1, dtype=np.float64) - middle) / (reach * UNIT)
        column = np.rint(255.0 * strength * (1.0 - away) * (1.0 - away)).astype(np.uint8)
        mask = Image.fromarray(column[:, None]).resize((PIXELS, y1 - y0), Image.Resampling.NEAREST)
        self.image.paste(self._shade(colour, 0.0, True), (0, y0), mask)

    def reveal(self, earlier: Image.Image, points: Sequence[Point]) -> None:
        """Paint a polygon with an earlier state of the image: an opening one looks through."""
        mask = Image.new("L", self.image.size)
        ImageDraw.Draw(mask).polygon([(x * UNIT, y * UNIT) for x, y in points], fill=255)
        self.image.paste(earlier, (0, 0), mask)

    def mirror(self, shore: float, squash: float = 1.0) -> None:
        """Copy what stands above the shore upside down below it."""
        edge = round(shore * UNIT)
        depth = PIXELS - edge
        source = min(edge, round(depth * squash))
        for drawing in (self.image, self.ink):
            if drawing is not None:
                part = drawing.crop((0, edge - source, PIXELS, edge))
                part = part.transpose(Image.Transpose.FLIP_TOP_BOTTOM).resize((PIXELS, depth))
                drawing.paste(part, (0, edge))


_DIAGONALS = ((-1, -1), (1, 1))


def gradient(stops: Sequence[tuple[int, int, int]], width: int, height: int) -> Image.Image:
    """Returns an image that runs evenly through the colours from top to bottom."""
    column = Image.new("RGB", (1, len(stops)))
    for row, colour in enumerate(stops):
        column.putpixel((0, row), colour)
    # From the middle of the first pixel to that of the last, so that no end is flat.
    span = (0.0, 0.5, 1.0, len(stops) - 0.5)
    tall = column.resize((1, max(1, height)), Image.Resampling.BILINEAR, box=span)
    return tall.resize((width, max(1, height)), Image.Resampling.NEAREST)


def _frame(rng: Random) -> tuple[float, float, float, float]:
    """Returns the window of the canvas that the image will show: how close the viewer stands."""
    side = PIXELS * rng.uniform(0.78, 1.0)
    # More is cut at the bottom than at the top, where spires and craters are.
    left, top = rng.random() * (PIXELS - side), rng.uniform(0.0, 0.6) * (PIXELS - side)
    return (left, top, left + side, top + side)


def _clip(corners: Sequence[Point], margin: int = 1) -> tuple[int, int, int, int] | None:
    """Returns the part of the image that these points span, or None when it is empty."""
    left = max(0, int(min(x for x, _ in corners)) - margin)
    top = max(0, int(min(y for _, y in corners)) - margin)
    right = min(PIXELS, int(max(x for x, _ in corners)) + 1 + margin)
    bottom = min(PIXELS, int(max(y for _, y in corners)) + 1 + margin)
    return (left, top, right, bottom) if right > left and bottom > top else None
