"""Scenes are determined by class, style and index, and are neither trivial nor noise."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

import ipl_scenes as scenes
from ipl.support.errors import DataError

CLASSES = (
    "beach desert forest mountain snowfield volcano waterfall lake island canyon skyline village "
    "castle lighthouse bridge windmill sunset starry_night rainbow thunderstorm"
)
SAMPLES = [(name, style) for name in scenes.CLASSES[::4] for style in scenes.STYLES]


def _digest(samples: list[tuple[str, str]]) -> str:
    """Return one hash over the pixels of image 5 of each sample."""
    total = hashlib.sha256()
    for name, style in samples:
        total.update(scenes.draw(name, 5, style).tobytes())
    return total.hexdigest()


def _thumbnails(indices: range) -> NDArray[np.float64]:
    """Return raw 12 x 12 pixels of every class, as classes x images x values."""
    rows = []
    for name in scenes.CLASSES:
        small = [scenes.draw(name, index).resize((12, 12)) for index in indices]
        rows.append([np.asarray(image, dtype=np.float64).ravel() for image in small])
    return np.array(rows)


def test_names_and_their_order() -> None:
    assert " ".join(name.replace(" ", "_") for name in scenes.CLASSES) == CLASSES
    assert scenes.STYLES == ("painted", "sketch", "pixel art", "night")
    assert scenes.SIZE == 96


@pytest.mark.parametrize("style", scenes.STYLES)
def test_every_class_is_an_image_of_its_own_for_every_index(style: str) -> None:
    for name in scenes.CLASSES:
        images = [scenes.draw(name, index, style) for index in (0, 100_003)]
        for image in images:
            assert (image.mode, image.size) == ("RGB", (96, 96))
            assert np.asarray(image).std() > 8, f"{name} is almost one flat colour"
        assert images[0].tobytes() != images[1].tobytes()


def test_the_same_triple_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import hashlib; import ipl_scenes as scenes; total = hashlib.sha256()\n"
        f"for name, style in {SAMPLES!r}: total.update(scenes.draw(name, 5, style).tobytes())\n"
        "print(total.hexdigest())"
    )
    # Another hash seed shows that nothing depends on Python's own hash of strings.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "271"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == _digest(SAMPLES)


def test_painted_is_the_default_style() -> None:
    assert scenes.draw("lake", 3).tobytes() == scenes.draw("lake", 3, "painted").tobytes()


def test_night_is_darker_sketch_is_paler_and_pixel_art_is_coarse() -> None:
    light: dict[str, list[float]] = {style: [] for style in scenes.STYLES}
    colourful: dict[str, list[float]] = {style: [] for style in scenes.STYLES}
    for style in scenes.STYLES:
        for name in scenes.CLASSES:
            values = np.asarray(scenes.draw(name, 2, style), dtype=np.float64)
            light[style].append(values.mean())
            colourful[style].append(np.ptp(values, axis=2).mean())
    assert np.mean(light["night"]) < np.mean(light["painted"]) - 30
    assert np.mean(colourful["sketch"]) < np.mean(colourful["painted"]) - 20
    coarse = np.asarray(scenes.draw("castle", 2, "pixel art"))
    assert (coarse[0::2, 0::2] == coarse[1::2, 1::2]).all()
    assert len(np.unique(coarse.reshape(-1, 3), axis=0)) <= 20


def test_sixteen_shots_of_raw_pixels_neither_solve_the_task_nor_leave_it_at_chance() -> None:
    shots, queries = _thumbnails(range(16)), _thumbnails(range(100, 106))
    centres = shots.mean(axis=1)
    away = ((queries[:, :, None, :] - centres[None, None]) ** 2).sum(axis=-1)
    accuracy = (away.argmin(axis=-1) == np.arange(20)[:, None]).mean()
    assert 0.25 < accuracy < 0.75


def test_an_unknown_class_is_an_error_that_names_the_closest() -> None:
    with pytest.raises(DataError, match=r"'mountains'.*mountain"):
        scenes.draw("mountains", 0)


def test_an_unknown_style_is_an_error_that_names_the_closest() -> None:
    with pytest.raises(DataError, match=r"'pixel-art'.*pixel art"):
        scenes.draw("lake", 0, "pixel-art")


def test_a_negative_index_is_an_error() -> None:
    with pytest.raises(DataError, match="-1"):
        scenes.draw("lake", -1)


def test_the_contact_sheet_holds_the_images_it_says() -> None:
    sheet = scenes.contact_sheet("sketch", columns=2, names=("lake", "castle"))
    right = sheet.width - 4
    for row, name in enumerate(("lake", "castle")):
        top = 4 + row * 100
        corner = sheet.crop((right - 96, top, right, top + 96))
        assert corner.tobytes() == scenes.draw(name, 1, "sketch").tobytes()


def test_without_a_style_the_contact_sheet_shows_all_styles() -> None:
    sheet = scenes.contact_sheet(columns=4, names=("volcano",))
    right = sheet.width - 4
    for column, style in enumerate(scenes.STYLES):
        left = right - 96 - (3 - column) * 100
        shown = sheet.crop((left, 4, left + 96, 100))
        assert shown.tobytes() == scenes.draw("volcano", 0, style).tobytes()
