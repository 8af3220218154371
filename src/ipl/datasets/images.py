"""Opens images, or says why one cannot be opened; and finds image files in folders.

What is decoded is bounded: by a number of pixels for each image, and in bytes for all threads
together. An image of more than EXACT_PIXELS is reduced by a whole factor while it is decoded.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from ipl.support.errors import DataError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
    | {".avif", ".heic", ".heif", ".hif"}
)
# How an image is turned upright, by its EXIF orientation.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
HEIC_EXTENSIONS = frozenset({".heic", ".heif", ".hif"})
MAX_PIXELS = 100_000_000  # of an image, as it is decoded
EXACT_PIXELS = 25_000_000  # images with more are reduced; all others stay as they are
REDUCED_SIDE = 2048  # pixels that the short side of a reduced image has at least
PIXEL_BYTES = 10  # that a pixel takes while most formats are decoded, with its copy
MOST_PIXEL_BYTES = 16  # of WebP (measured)
SHARED_BYTES = 400_000_000  # for all threads that decode
STRIP = 64  # rows that are converted at a time
THUMBNAIL = 96  # pixels
LITTER = frozenset({"thumbs.db", "desktop.ini"})  # files that systems put into image folders


class UnreadableImageError(DataError):
    """A file is missing, not an image, damaged or too large."""


class NotAnImageError(UnreadableImageError):
    """A file is in none of the formats that can be read, or its beginning is damaged."""


class ImageTooLargeError(UnreadableImageError):
    """An image has too many pixels, or needs too much memory."""


class _UnsupportedPixels(Exception):
    """Pixels that cannot be turned into RGB, and why."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """An image inside another library's dataset, loaded when it is needed."""

    name: str
    take: Callable[[], Any] = field(repr=False)

    def __str__(self) -> str:
        return self.name


class MemoryBudget:
    """Bytes that threads share. One that needs more than there are waits until it is alone."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._changed = threading.Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Takes a number of bytes as soon as they are free, and gives them back."""
        with self._changed:
            self._changed.wait_for(lambda: not self.used or self.used + size <= self.size)
            self.used += size
        try:
            yield
        finally:
            with self._changed:
                self.used -= size
                self._changed.notify_all()


def decoding_bytes(max_pixels: int) -> int:
    """Returns the memory that decoding an image takes at most, with this limit on its pixels."""
    return MOST_PIXEL_BYTES * max_pixels


_DECODING = MemoryBudget(SHARED_BYTES)


@cache
def image_formats() -> tuple[str, ...]:
    """Returns Pillow's names of the formats that can be read here.

    Only those of EXTENSIONS: some of Pillow's other decoders start programs.
    """
    formats = ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"]
    if "avif" in features.modules and features.check("avif"):  # Pillow 11.3
        formats.append("AVIF")
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        pass
    else:
        register_heif_opener(thumbnails=False)
        formats.append("HEIF")
    return tuple(formats)


def open_image(path: Path | ImageSource, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Returns the image upright in RGB; raises UnreadableImageError with the reason.

    A file of more than EXACT_PIXELS is returned smaller by a whole factor, with at least
    REDUCED_SIDE pixels along its short side. EXIF data that cannot be parsed is ignored: the image
    is returned as it is stored.
    """
    if isinstance(path, ImageSource):
        with _reasons(path.name):
            image = _load(path)
            image.load()
            return _upright_rgb(image.copy() if image.mode == "RGB" else image, _turn(image))
    return read_image(path, str(path), max_pixels)


def read_image(
    file: Path | BytesIO, name: str, max_pixels: int = MAX_PIXELS, side: int | None = None
) -> Image.Image:
    """Returns the image in a file or in bytes, as `open_image` does; errors begin with its name.

    With `side`, a JPEG is decoded at a half, a quarter or an eighth of its size if its sides can
    be divided by that and still have so many pixels then. (A remainder would shift the image.)
    """
    with _reasons(name), Image.open(file, formats=image_formats()) as image:
        need = _prepare_decoding(image, name, max_pixels)
        if side is not None:
            width, height = image.size
            for factor in (8, 4, 2):
                if not (width % factor or height % factor) and min(image.size) >= factor * side:
                    image.draft(None, (width // factor, height // factor))
                    break  # and without effect on an image that is reduced already
        with _DECODING.take(need):
            image.load()
            large = image.width * image.height > EXACT_PIXELS
            factor = max(1, min(image.size) // REDUCED_SIDE) if large else 1
            return _upright_rgb(image, _turn(image), factor)


def check_image(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Returns the width and height in the header of these bytes; raises UnreadableImageError."""
    with _reasons(name), Image.open(BytesIO(data), formats=image_formats()) as image:
        size = image.size
        _prepare_decoding(image, name, max_pixels)
        return size


def _prepare_decoding(image: Image.Image, name: str, max_pixels: int) -> int:
    """Lets a large JPEG be decoded at a reduced size; returns the bytes that decoding takes.

    Raises ImageTooLargeError if there are too many pixels.
    """
    width, height = image.size
    pixels = width * height
    if pixels > EXACT_PIXELS:
        image.draft(None, (REDUCED_SIDE, REDUCED_SIDE))  # to a half, a quarter or an eighth
    if not image.info.get("progressive"):  # such a JPEG is in memory as a whole
        pixels = image.width * image.height
    if pixels > max_pixels:
        raise ImageTooLargeError(
            f"{name}: the image has {width:,} x {height:,} pixels; at most {max_pixels:,} are "
            "allowed"
        )
    return PIXEL_BYTES * pixels


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Raises UnreadableImageError, with the reason, for whatever decoders raise."""
    try:
        yield
    except UnreadableImageError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError(f"{name}: no such file") from None
    except UnidentifiedImageError:
        reason = "not an image"
        if Path(name).suffix.lower() in HEIC_EXTENSIONS and "HEIF" not in image_formats():
            reason = "a HEIC image, which needs: pip install 'ipl[data]'"
        raise NotAnImageError(f"{name}: {reason}") from None
    except _UnsupportedPixels as error:
        raise UnreadableImageError(f"{name}: {error}") from None
    except Image.DecompressionBombError:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # Pillow's own limit
        raise ImageTooLargeError(f"{name}: the image has more than {most:,} pixels") from None
    except Exception as error:  # damaged bytes make Pillow's decoders raise almost anything
        if isinstance(error, OSError) and error.errno:  # from the system, not from a decoder
            raise UnreadableImageError(f"{name}: {(error.strerror or '').lower()}") from None
        if isinstance(error, MemoryError) or "memory" in str(error).lower():
            raise ImageTooLargeError(f"{name}: there is not enough memory to decode it") from None
        raise UnreadableImageError(f"{name}: the image is damaged or incomplete") from None


def small_jpeg(path: Path | ImageSource, side: int) -> bytes:
    """Returns the image as a JPEG file, at most `side` pixels wide and high."""
    image = open_image(path)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, "JPEG", quality=80)
    return file.getvalue()


def thumbnail(path: Path | ImageSource, side: int = THUMBNAIL) -> str | None:
    """Returns a small JPEG of an image as a data URI; None if it can no longer be opened."""
    try:
        data = small_jpeg(path, side)
    except UnreadableImageError:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")


def short_name(path: Path | ImageSource) -> str:
    """Returns an image's folder and file, without the rest of its path."""
    return "/".join(Path(str(path)).parts[-2:])


def _load(source: ImageSource) -> Image.Image:
    image = source.take()
    if not isinstance(image, Image.Image):
        raise UnreadableImageError(
            f"{source}: a {type(image).__name__}, not an image; the dataset must return images, "
            "without a transform or another format"
        )
    return image


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Returns how the image is turned upright, as its EXIF orientation says.

    ImageOps.exif_transpose would also rewrite the other EXIF entries, which fails if one of them
    is damaged.
    """
    try:
        return TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow's EXIF parser raises almost anything
        return None


def _upright_rgb(image: Image.Image, turn: Image.Transpose | None, factor: int = 1) -> Image.Image:
    """Returns the image in RGB, smaller by a whole factor, and turned; perhaps in its place."""
    rgb = _shrunk_rgb(image, factor) if factor > 1 or image.mode.startswith("I") else _rgb(image)
    if turn is not None:
        rgb = rgb.transpose(turn)
    rgb.info = {}  # without the EXIF orientation, which has been applied
    return rgb


def _shrunk_rgb(image: Image.Image, factor: int) -> Image.Image:
    """Returns the image in RGB, smaller by a whole factor; only the result takes memory."""
    width, height = image.size
    small = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    rows = factor * max(1, STRIP // factor)
    for top in range(0, height, rows):
        strip = _rgb(image.crop((0, top, width, min(top + rows, height))))
        small.paste(strip.reduce(factor), (0, top // factor))
    return small


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip to white
        image = _in_8_bits(image)
    elif image.mode == "F":
        raise _UnsupportedPixels("its pixels are floating-point numbers of unknown range")
    elif image.mode == "LAB":
        raise _UnsupportedPixels("its colours are Lab, which is not supported; save it in RGB")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Returns an image of 16 bits per pixel with its tones rounded to 8 bits."""
    tones = _tones()
    return Image.fromarray(tones[np.asarray(image).clip(0, len(tones) - 1)])


@cache
def _tones() -> Any:
    """Returns the 8 bits of each tone of 16 bits (65536,)."""
    return ((np.arange(1 << 16) + 128) // 257).astype(np.uint8)


def is_image_name(path: Path) -> bool:
    """Returns whether a file's extension is that of an image."""
    return path.suffix.lower() in EXTENSIONS


def is_litter(path: Path) -> bool:
    """Returns whether a relative path is hidden, or a file that systems put into folders."""
    return any(part.startswith(".") for part in path.parts) or path.name.lower() in LITTER


def files_below(folder: Path) -> Iterator[Path]:
    """Yields the files below a folder in sorted order, without hidden ones and litter."""
    for file in sorted(folder.rglob("*")):
        if not is_litter(file.relative_to(folder)) and file.is_file():
            yield file
