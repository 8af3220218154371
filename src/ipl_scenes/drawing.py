"""Draws a scene by class, index and style, and contact sheets of many scenes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from random import Random

from PIL import Image, ImageDraw, ImageFont

from ipl.support.errors import DataError, did_you_mean
from ipl_scenes import crossings, landmarks, nature, spectacles, styles, volcano, wonders
from ipl_scenes.canvas import SIZE, Canvas
from ipl_scenes.palettes import DAY, NIGHTS, STORMS, SUNSETS, Mood, choose_mood, nightfall

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
# Classes that are a kind of light themselves, and snow, which in yellow light looks like sand.
_CLASS_MOODS: dict[str, Sequence[Mood]] = {
    "sunset": SUNSETS,
    "snowfield": [mood for mood in DAY if mood.name not in ("golden", "retro")],
    "starry night": NIGHTS,
    "thunderstorm": STORMS,
}
_DARKENED = ("sunset", "thunderstorm")  # drawn in their own light even at night, but darker
CLASSES: tuple[str, ...] = tuple(_PAINTERS)
STYLES: tuple[str, ...] = tuple(_FINISHES)


def draw(name: str, index: int, style: str = "painted") -> Image.Image:
    """Draw one scene.

    Parameters
    ----------
    name : str
        The class, one of `CLASSES`.
    index : int
        The number of the image, 0 or more; each is another image.
    style : {"painted", "sketch", "pixel art", "night"}, default="painted"
        How the scene is drawn, one of `STYLES`.

    Returns
    -------
    PIL.Image.Image
        An RGB image of 96 x 96 pixels, the same for the same arguments.

    Raises
    ------
    DataError
        If the class or style is unknown, or the index is negative.
    """
    _check_choice(name, CLASSES, "class")
    _check_choice(style, STYLES, "style")
    if index < 0:
        raise DataError(f"index is {index}; it must be 0 or more.")
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
    """Returns the moods in which a class is drawn, by day or by night."""
    if not night:
        return _CLASS_MOODS.get(name, DAY)
    return [nightfall(mood) for mood in _CLASS_MOODS[name]] if name in _DARKENED else NIGHTS


def _check_choice(value: str, choices: Sequence[str], what: str) -> None:
    """Raises DataError, with the closest names, unless the value is one of the choices."""
    if value not in choices:
        raise DataError(f"There is no {what} of scenes {value!r}.{did_you_mean(value, choices)}")


def contact_sheet(
    style: str | None = None, *, columns: int = 8, names: Sequence[str] = CLASSES
) -> Image.Image:
    """Draw a table of scenes with one labelled row per class.

    `python -m ipl_scenes docs/scenes.png` writes the sheet in the documentation.

    Parameters
    ----------
    style : str, optional
        One of `STYLES`; by default the columns are divided among all of them.
    columns : int, default=8
        Images per class.
    names : sequence of str, default=CLASSES
        The classes.

    Returns
    -------
    PIL.Image.Image
        The sheet in RGB.
    """
    gap, label_width = 4, 92
    styles_shown = STYLES if style is None else (style,)
    per_style = -(-columns // len(styles_shown))
    step = SIZE + gap
    sheet = Image.new("RGB", (label_width + columns * step, len(names) * step + gap), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(13)
    for row, name in enumerate(names):
        top = gap + row * step
        pen.text(
            (label_width - 8, top + SIZE // 2), name, fill=(40, 44, 52), font=font, anchor="rm"
        )
        for column in range(columns):
            image = draw(name, column % per_style, styles_shown[column // per_style])
            sheet.paste(image, (label_width + column * step, top))
    return sheet
