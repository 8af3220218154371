"""Opens images, or says why one cannot be opened; and knows image files by their names."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from ipl.support.errors import DataError
from ipl.support.files import is_special

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
EXACT_PIXELS = 25_000_000  # a JPEG with more is decoded at a reduced size
REDUCED_SIDE = 2048  # pixels that its short side then has at least
THUMBNAIL = 96  # pixels
LITTER = frozenset({"thumbs.db", "desktop.ini"})  # files that systems put into image folders
_one_large = threading.Lock()  # of several threads, one decodes a large image


class UnreadableImageError(DataError):
    """A file is missing, not an image, damaged or too large."""


class NotAnImageError(UnreadableImageError):
    """A file is in none of the formats that can be read, or its beginning is damaged."""


class ImageTooLargeError(UnreadableImageError):
    """An image has too many pixels, or needs too much memory."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """An image inside another library's dataset, loaded when it is needed."""

    name: str
    take: Callable[[], Any] = field(repr=False)

    def __str__(self) -> str:
        return self.name


@cache
def image_formats() -> tuple[str, ...]:
    """Pillow's names of the formats that can be read here.

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
    """The image upright in RGB; raises UnreadableImageError with the reason.

    A JPEG of more than EXACT_PIXELS is returned smaller, with at least REDUCED_SIDE pixels along
    its short side. EXIF data that cannot be parsed is ignored: the image is returned as it is
    stored.
    """
    if isinstance(path, Path):
        return read_image(path, str(path), max_pixels)
    with _reasons(path.name):
        image = path.take()
        if not isinstance(image, Image.Image):
            raise UnreadableImageError(
                f"{path}: a {type(image).__name__}, not an image; the dataset must return images, "
                "without a transform or another format"
            )
        rgb = _upright_rgb(image, path.name)
        rgb = rgb.copy() if rgb is image else rgb
        rgb.info = {}
        return rgb


def read_image(
    file: Path | BytesIO,
    name: str,
    max_pixels: int = MAX_PIXELS,
    side: int | None = None,
    formats: tuple[str, ...] | None = None,
    exact: bool = True,
) -> Image.Image:
    """The image in a file or in bytes, as `open_image` does; errors begin with its name.

    `formats` are those that are opened, if not all. With `side`, a JPEG is decoded at a half, a
    quarter or an eighth of its size if its sides still have so many pixels then; an exact one only
    if they can be divided by that, as a remainder would shift the image.
    """
    with _reasons(name):
        if isinstance(file, Path) and is_special(file):  # a pipe or a device may have no end
            raise UnreadableImageError(f"{name}: not a regular file")
        with Image.open(file, formats=formats or image_formats()) as image:
            _check_size(image, name, max_pixels)
            if side is not None:
                _reduce(image, side, exact)
            with _one_large if image.width * image.height > EXACT_PIXELS else nullcontext():
                rgb = _upright_rgb(image, name)
        rgb.info = {}  # without the EXIF orientation, which has been applied
        return rgb


def _reduce(image: Image.Image, side: int, exact: bool) -> None:
    """Lets a JPEG be decoded at a reduced size, without effect on one that is reduced already."""
    width, height = image.size
    for factor in (8, 4, 2):
        divisible = not (width % factor or height % factor)
        if (divisible or not exact) and min(image.size) >= factor * side:
            image.draft(None, (width // factor, height // factor))
            break


def check_image(
    data: bytes, name: str, max_pixels: int, formats: tuple[str, ...]
) -> tuple[int, int]:
    """The width and height in the header of these bytes; raises UnreadableImageError."""
    with _reasons(name), Image.open(BytesIO(data), formats=formats) as image:
        size = image.size
        _check_size(image, name, max_pixels)
        return size


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    """Lets a large JPEG be decoded at a reduced size; raises if there are too many pixels."""
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


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Raises UnreadableImageError, with the reason, for whatever decoders raise."""
    try:
        yield
    except UnreadableImageError:
        raise
    except UnidentifiedImageError:
        reason = "not an image"
        if Path(name).suffix.lower() in HEIC_EXTENSIONS and "HEIF" not in image_formats():
            reason = "a HEIC image, which needs: pip install 'ipl[data]'"
        raise NotAnImageError(f"{name}: {reason}") from None
    except Image.DecompressionBombError:
        raise ImageTooLargeError(f"{name}: the image has too many pixels") from None
    except Exception as error:  # damaged bytes make Pillow's decoders raise almost anything
        if isinstance(error, MemoryError) or "memory" in str(error).lower():
            raise ImageTooLargeError(f"{name}: there is not enough memory to decode it") from None
        reason = "the image is damaged or incomplete"
        if isinstance(error, FileNotFoundError):
            reason = "no such file"
        elif isinstance(error, OSError) and error.errno:  # from the system, not from a decoder
            reason = (error.strerror or "").lower()
        raise UnreadableImageError(f"{name}: {reason}") from None


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    """The image in RGB, turned as its EXIF orientation says; perhaps the same object."""
    image.load()
    # ImageOps.exif_transpose would also rewrite the other EXIF entries, of which one may be
    # damaged.
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow's EXIF parser raises almost anything
        turn = None
    if image.mode in ("F", "LAB"):  # numbers of unknown range, and colours that need a profile
        raise UnreadableImageError(
            f"{name}: pixels of mode {image.mode} are not supported; save it in RGB"
        )
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip to white
        image = image.convert("I").point(lambda tone: tone / 257 + 0.5).convert("L")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return rgb if turn is None else rgb.transpose(turn)


def thumbnail(path: Path | ImageSource, side: int = THUMBNAIL) -> str | None:
    """A small JPEG of an image as a data URI; None if it can no longer be opened."""
    try:
        image = open_image(path)
    except UnreadableImageError:
        return None
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def grey_thumbnail(path: Path | ImageSource, side: int) -> np.ndarray[Any, Any]:
    """The bytes (side, side) of a small grey image, of which a JPEG is decoded fast."""
    if isinstance(path, ImageSource):
        image = open_image(path)
    else:
        image = read_image(path, str(path), side=4 * side, exact=False)
    return np.asarray(image.convert("L").resize((side, side), Image.Resampling.BOX))


def short_name(path: Path | ImageSource) -> str:
    """An image's folder and file, without the rest of its path."""
    return "/".join(Path(str(path)).parts[-2:])


def is_image_name(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def is_litter(path: Path) -> bool:
    """Whether a relative path is hidden, or a file that systems put into folders."""
    return any(part.startswith(".") for part in path.parts) or path.name.lower() in LITTER
