"""Scenes: 20 classes of landscapes and landmarks drawn by code, in four styles.

The images need no download and no licence. Each is fixed by its class, its style and its
index: the same three give the same bytes in every process (with the same version of Pillow).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from random import Random

from PIL import Image, ImageDraw, ImageFont

from ipl.support.errors import DataError, did_you_mean
from ipl_scenes import crossings, landmarks, nature, spectacles, styles, volcano, wonders
from ipl_scenes.canvas import SIZE, Canvas
from ipl_scenes.palettes import DAY, NIGHTS, STORMS, SUNSETS, Mood, choose_mood, nightfall

__all__ = ["CLASSES", "SIZE", "STYLES", "contact_sheet", "draw"]

_PAINTERS: dict[str, Callable[[Canvas], None]] = {
    "beach": nature.beach,
    "desert": nature.desert,
    "forest": nature.forest,
    "mountain": nature.mountain,
    "snowfield": nature.snowfield,
    "volcano": volcano.volcano,
    "waterfall": wonders.waterfall,
    "lake": wonders.lake,
    "island": wonders.island,
    "canyon": wonders.canyon,
    "skyline": landmarks.skyline,
    "village": landmarks.village,
    "castle": landmarks.castle,
    "lighthouse": landmarks.lighthouse,
    "bridge": crossings.bridge,
    "windmill": crossings.windmill,
    "sunset": spectacles.sunset,
    "starry night": spectacles.starry_night,
    "rainbow": spectacles.rainbow,
    "thunderstorm": spectacles.thunderstorm,
}
_FINISHES: dict[str, Callable[[Canvas], Image.Image]] = {
    "painted": styles.painted,
    "sketch": styles.sketch,
    "pixel art": styles.pixel_art,
    "night": styles.painted,
}
# Some classes are a kind of light themselves, and yellow snow would pass for sand.
_OWN_LIGHT: dict[str, Sequence[Mood]] = {
    "sunset": SUNSETS,
    "snowfield": [mood for mood in DAY if mood.name not in ("golden", "retro")],
    "starry night": NIGHTS,
    "thunderstorm": STORMS,
}
_DIMMED = ("sunset", "thunderstorm")
CLASSES: tuple[str, ...] = tuple(_PAINTERS)
STYLES: tuple[str, ...] = tuple(_FINISHES)


def draw(name: str, index: int, style: str = "painted") -> Image.Image:
    """Returns image number `index` of a class in a style, 96 x 96 pixels, RGB.

    Any index from 0 up is an image of its own. Raises DataError for an unknown class or style
    and for a negative index.
    """
    _known(name, CLASSES, "class of scenes")
    _known(style, STYLES, "style of scenes")
    if index < 0:
        raise DataError(f"index is {index}; a scene's index is 0 or more.")
    digest = hashlib.sha256(f"{name}/{style}/{index}".encode()).digest()
    rng = Random(int.from_bytes(digest[:8], "big"))
    night = style == "night"
    moods = _moods(name, night)
    canvas = Canvas(rng, choose_mood(rng, moods), night=night, pen=style == "sketch")
    _PAINTERS[name](canvas)
    image = _FINISHES[style](canvas)
    if rng.random() < 0.5:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image


def _moods(name: str, night: bool) -> Sequence[Mood]:
    """Returns the kinds of light in which a class is drawn."""
    if not night:
        return _OWN_LIGHT.get(name, DAY)
    return [nightfall(mood) for mood in _OWN_LIGHT[name]] if name in _DIMMED else NIGHTS


def _known(word: str, choices: Sequence[str], what: str) -> None:
    """Raises DataError, with the closest names, unless the word is one of the choices."""
    if word not in choices:
        raise DataError(f"No {what} is called {word!r}.{did_you_mean(word, choices)}")


def contact_sheet(
    style: str | None = None, *, columns: int = 8, names: Sequence[str] = CLASSES
) -> Image.Image:
    """Returns one row of `columns` images for each class, labelled with the class's name.

    Without a style the columns are shared among all four styles. The sheet in the documentation
    is written by `python -m ipl_scenes docs/scenes.png`.
    """
    gap, label = 4, 92
    kinds = STYLES if style is None else (style,)
    per_kind = -(-columns // len(kinds))
    step = SIZE + gap
    sheet = Image.new("RGB", (label + columns * step, len(names) * step + gap), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(13)
    for row, name in enumerate(names):
        top = gap + row * step
        pen.text((label - 8, top + SIZE // 2), name, fill=(40, 44, 52), font=font, anchor="rm")
        for column in range(columns):
            image = draw(name, column % per_kind, kinds[column // per_kind])
            sheet.paste(image, (label + column * step, top))
    return sheet
