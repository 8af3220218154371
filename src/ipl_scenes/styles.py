"""Styles: how a finished canvas becomes a painting, a pencil sketch, pixel art or a night piece."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from ipl_scenes.canvas import PIXELS, SIZE, Canvas

PAPERS = ((250, 246, 236), (244, 238, 222), (247, 247, 244), (238, 232, 218))
INKS = ((42, 42, 48), (74, 52, 38), (34, 48, 84), (52, 52, 52))
CELLS = 48
# Each pass of the pencil: its slope, the distance of its strokes and the tone it stops at.
STROKES = ((1.0, 9, 0.62), (-1.0, 9, 0.4), (0.2, 7, 0.24), (1.0, 5, 0.12))
_BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 16.0 - 0.47


def _noise(rng: Random, height: int, width: int) -> NDArray[np.float64]:
    """Returns even noise between -1 and 1, drawn from bytes so that it is cheap."""
    raw = np.frombuffer(rng.randbytes(height * width), dtype=np.uint8)
    return raw.reshape(height, width).astype(np.float64) / 127.5 - 1.0


def _image(values: NDArray[np.float64]) -> Image.Image:
    """Returns the image of an array of intensities from 0 to 255."""
    return Image.fromarray(np.rint(np.clip(values, 0.0, 255.0)).astype(np.uint8))


def painted(canvas: Canvas) -> Image.Image:
    """Returns the canvas at its final size with a fine grain, as of paint on board."""
    small = canvas.image.resize((SIZE, SIZE), Image.Resampling.LANCZOS, box=canvas.frame)
    grain = _noise(canvas.rng, SIZE, SIZE)[:, :, None] * 2.0
    return _image(np.asarray(small, dtype=np.float64) + grain)


def _hatching(rng: Random, tone: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns pencil strokes, 0 paper to 1 lead, that grow denser where the tone is darker."""
    along = np.arange(PIXELS, dtype=np.float64)
    rows, columns = along[:, None], along[None, :]
    wobble = np.repeat(np.repeat(_noise(rng, PIXELS // 12, PIXELS // 12), 12, 0), 12, 1) * 1.2
    lean = rng.uniform(0.6, 1.2)
    lead = np.zeros_like(tone)
    for turn, spacing, limit in STROKES:
        phase = (rows + columns * (turn * lean) + wobble) % spacing
        strength = np.clip((limit - tone) * 3.0, 0.0, 0.6)
        lead = np.maximum(lead, np.where(phase < 2.4, strength, 0.0))
    return lead


def sketch(canvas: Canvas) -> Image.Image:
    """Returns outlines and hatching on paper, at times with a thin wash of watercolour."""
    rng = canvas.rng
    if canvas.ink is None:
        raise AssertionError("a sketch needs a canvas with a pen")
    paper = np.array(rng.choice(PAPERS), dtype=np.float64)
    ink = np.array(rng.choice(INKS), dtype=np.float64)
    grey = canvas.image.convert("L").filter(ImageFilter.BoxBlur(1))
    tone = np.asarray(grey, dtype=np.float64) / 255.0
    ranked = np.sort(tone[::4, ::4], axis=None)
    low, high = ranked[ranked.size // 50], ranked[-ranked.size // 50]
    tone = np.clip((tone - low) / max(0.1, high - low), 0.0, 1.0)
    # Stretching the tones would turn night into day; a dark image keeps more pencil on it.
    tone *= min(1.0, 0.5 + 1.2 * ranked[ranked.size // 2])
    outline = 1.0 - np.asarray(canvas.ink, dtype=np.float64) / 255.0
    lead = np.maximum(_hatching(rng, tone), outline)
    lead *= 0.88 + 0.12 * _noise(rng, PIXELS, PIXELS)
    sheet = np.broadcast_to(paper, (PIXELS, PIXELS, 3))
    if rng.random() < 0.4:
        blurred = canvas.image.filter(ImageFilter.BoxBlur(3))
        sheet = sheet * (0.62 + 0.38 * np.asarray(blurred, dtype=np.float64) / 255.0)
    drawing = sheet * (1.0 - lead[:, :, None]) + ink * lead[:, :, None]
    return _image(drawing).resize((SIZE, SIZE), Image.Resampling.LANCZOS, box=canvas.frame)


def pixel_art(canvas: Canvas) -> Image.Image:
    """Returns large square pixels in a small palette, the shades between them dithered."""
    rng = canvas.rng
    small = canvas.image.resize((CELLS, CELLS), Image.Resampling.LANCZOS, box=canvas.frame)
    values = np.asarray(small, dtype=np.float64)
    # Written out: a matrix product may round differently on another machine.
    grey = 0.3 * values[:, :, :1] + 0.59 * values[:, :, 1:2] + 0.11 * values[:, :, 2:]
    vivid = grey + (values - grey) * 1.35
    vivid = 128.0 + (vivid - 128.0) * 1.12
    tiles = np.tile(_BAYER, (CELLS // 4, CELLS // 4))[:, :, None] * 13.0
    colours = rng.choice((12, 16, 20))
    palette = _image(vivid).quantize(colours, method=Image.Quantize.MAXCOVERAGE)
    art = _image(vivid + tiles).quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB")
    return art.resize((SIZE, SIZE), Image.Resampling.NEAREST)
