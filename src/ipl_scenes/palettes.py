"""Colours and moods: the light a scene is painted in (time of day and weather)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

Colour = tuple[float, float, float]


def rgb(code: str) -> Colour:
    """Returns the colour written as six hexadecimal digits."""
    return (int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16))


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Returns the colour `share` of the way from the first to the second."""
    keep = 1.0 - share
    return (
        first[0] * keep + second[0] * share,
        first[1] * keep + second[1] * share,
        first[2] * keep + second[2] * share,
    )


def scale(colour: Colour, factor: float) -> Colour:
    """Returns the colour made darker (factor below 1) or lighter (above 1)."""
    return (colour[0] * factor, colour[1] * factor, colour[2] * factor)


def jitter(rng: Random, colour: Colour, amount: float) -> Colour:
    """Returns the colour moved at random by up to `amount` in each channel."""
    shift = rng.uniform(-amount, amount)
    return (
        colour[0] + shift + rng.uniform(-amount, amount) * 0.6,
        colour[1] + shift + rng.uniform(-amount, amount) * 0.6,
        colour[2] + shift + rng.uniform(-amount, amount) * 0.6,
    )


@dataclass(frozen=True)
class Mood:
    """The light of one image: its sky, its haze and what they do to every colour."""

    name: str
    sky: tuple[Colour, Colour, Colour]
    ambient: Colour
    haze: Colour
    fog: float
    sun: Colour
    dark: bool = False


def _mood(
    name: str, sky: str, ambient: Colour, haze: str, fog: float, sun: str, dark: bool = False
) -> Mood:
    """Returns a mood from colours written in hexadecimal, the sky's from top to horizon."""
    top, middle, low = (rgb(code) for code in sky.split())
    return Mood(name, (top, middle, low), ambient, rgb(haze), fog, rgb(sun), dark)


DAY = (
    _mood("noon", "2f86cf 76b8e6 d3ecf4", (1.0, 1.0, 1.0), "b9dcec", 0.75, "fff7d8"),
    _mood("azure", "1f9fc0 7fd0d6 f2f0d2", (1.0, 1.0, 0.96), "c4e4dc", 0.75, "fffbe6"),
    _mood("morning", "7fb2d9 c7d6e2 fbe3c0", (1.02, 0.98, 0.92), "e8dcd0", 0.8, "fff0c4"),
    _mood("pastel", "8aa8dc d9b9d8 fcdcc8", (1.0, 0.93, 0.96), "e6c8d6", 0.8, "fff2dc"),
    _mood("retro", "3f8f97 a3c4ab f6dfae", (1.02, 0.96, 0.84), "d6cfa8", 0.8, "fff3c4"),
    _mood("golden", "5f8fbf e6bf8c ffd68a", (1.08, 0.93, 0.74), "f2c892", 0.75, "fff0b0"),
    _mood("overcast", "8799a8 aab8c0 d0d6d4", (0.84, 0.88, 0.91), "b9c4c8", 0.85, "eef0ea"),
    _mood("mist", "b4c6cc d0dad8 eae8dc", (0.95, 0.97, 0.96), "dde2dc", 1.0, "fffaf0"),
    _mood("gloom", "46525f 6c7986 a3adb0", (0.68, 0.72, 0.78), "8592a0", 0.85, "e4e8ea"),
    _mood("dawn", "6a5a92 e0907c ffd49a", (0.92, 0.76, 0.72), "e6ae98", 0.75, "fff0c0"),
    _mood("dusk", "3d4a86 b0749c f6a878", (0.84, 0.7, 0.82), "c48a98", 0.75, "ffd9a0", True),
)
SUNSETS = (
    _mood("fire", "4a2f6e d4555a ffb347", (0.62, 0.4, 0.42), "e8804f", 0.8, "fff0a0", True),
    _mood("rose", "40508f d77aa0 ffc79a", (0.6, 0.45, 0.56), "dc8a98", 0.8, "fff0c8", True),
    _mood("ember", "7a2436 e0592f ffc24a", (0.56, 0.32, 0.3), "e0703a", 0.8, "fff2a8", True),
    _mood("peach", "3f7f9a f0b088 ffd98c", (0.6, 0.5, 0.5), "eaa07c", 0.8, "fff6c8", True),
    _mood("violet", "2c2a66 8c4a94 ff8f6a", (0.5, 0.38, 0.56), "b0608a", 0.8, "ffd890", True),
)
NIGHTS = (
    _mood("moonlit", "0b1536 1c3566 4a6c9a", (0.38, 0.47, 0.72), "35557f", 0.8, "f4f2dc", True),
    _mood("teal night", "06202e 104658 3f8488", (0.32, 0.5, 0.6), "2c6470", 0.8, "f2f6e4", True),
    _mood(
        "violet night", "150f38 38296b 7a5a9c", (0.45, 0.41, 0.72), "52427f", 0.8, "fbeedd", True
    ),
)
STORMS = (
    _mood("slate", "1d2430 3b4658 78859a", (0.5, 0.55, 0.64), "566478", 0.8, "e8f0ff", True),
    _mood("bruise", "221c36 473a62 907a9c", (0.52, 0.48, 0.62), "635578", 0.8, "f4e8ff", True),
    _mood("green storm", "18262a 37504f 8a9c86", (0.5, 0.6, 0.56), "5a726a", 0.8, "f4ffe8", True),
)


def choose_mood(rng: Random, moods: Sequence[Mood]) -> Mood:
    """Returns one of the moods with its colours slightly moved, so that no two skies are equal."""
    mood = rng.choice(moods)
    top, middle, low = (jitter(rng, colour, 9.0) for colour in mood.sky)
    warmth = rng.uniform(-0.05, 0.05)
    red, green, blue = mood.ambient
    return replace(
        mood,
        sky=(top, middle, low),
        haze=mix(mood.haze, low, 0.35),
        ambient=(red * (1.0 + warmth), green, blue * (1.0 - warmth)),
    )


def nightfall(mood: Mood) -> Mood:
    """Returns the mood an hour later: night from above, the last light left at the horizon."""
    navy = rgb("0a1030")
    top, middle, low = mood.sky
    red, green, blue = mood.ambient
    return replace(
        mood,
        sky=(mix(top, navy, 0.8), mix(middle, navy, 0.62), mix(low, navy, 0.25)),
        ambient=(red * 0.6, green * 0.62, blue * 0.75),
        haze=mix(mood.haze, navy, 0.5),
    )
