"""Opens images, or says why one cannot be opened; and finds image files in folders."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from ipl.support.errors import DataError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)
# Only the formats of these extensions: some of Pillow's other decoders start programs.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
# What Pillow's decoders raise on damaged bytes.
DECODING_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    struct.error,
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
THUMBNAIL = 96  # pixels
LITTER = frozenset({"thumbs.db", "desktop.ini"})  # files that systems put into image folders


class UnreadableImageError(DataError):
    """A file is missing, not an image, or truncated."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """An image inside another library's dataset, loaded when it is needed."""

    name: str
    take: Callable[[], Any] = field(repr=False)

    def __str__(self) -> str:
        return self.name


def open_image(path: Path | ImageSource) -> Image.Image:
    """Returns the image upright in RGB; raises UnreadableImageError with the reason.

    EXIF data that cannot be parsed is ignored: the image is returned as it is stored.
    """
    try:
        if isinstance(path, ImageSource):
            return _to_rgb(_turn_upright(_load(path)))
        with Image.open(path, formats=FORMATS) as image:
            image.load()
            return _to_rgb(_turn_upright(image))
    except UnreadableImageError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        raise UnreadableImageError(f"{path}: not an image") from None
    except Image.DecompressionBombError:
        raise UnreadableImageError(f"{path}: the image has too many pixels") from None
    except DECODING_ERRORS as error:
        if isinstance(error, OSError) and error.errno:  # from the system, not from a decoder
            raise UnreadableImageError(f"{path}: {(error.strerror or '').lower()}") from None
        truncated = "truncated" in str(error).lower() or isinstance(error, EOFError)
        reason = "the file is truncated" if truncated else "the image is damaged"
        raise UnreadableImageError(f"{path}: {reason}") from None


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


def _turn_upright(image: Image.Image) -> Image.Image:
    """Returns the image as its EXIF orientation says.

    ImageOps.exif_transpose would also rewrite the other EXIF entries, which fails if one of them
    is damaged.
    """
    image.load()
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow's EXIF parser raises almost anything
        turn = None
    return image if turn is None else image.transpose(turn)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip to white
        tones = np.asarray(image).astype(np.float64) / 257
        image = Image.fromarray(tones.round().clip(0, 255).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    rgb = image.convert("RGB")
    rgb.info = {}  # without the EXIF orientation, which has been applied
    return rgb


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
