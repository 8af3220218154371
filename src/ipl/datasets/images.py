"""Opens images, or says why one cannot be opened; and finds image files in folders."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ipl.support.errors import DataError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)
# Only the formats of these extensions: some of Pillow's other decoders start programs.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
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
    """Returns the image upright in RGB; raises UnreadableImageError with the reason."""
    try:
        if isinstance(path, ImageSource):
            return _to_rgb(ImageOps.exif_transpose(_load(path)))
        with Image.open(path, formats=FORMATS) as image:
            image.load()
            return _to_rgb(ImageOps.exif_transpose(image))
    except UnreadableImageError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError(f"{path}: no such file") from None
    except UnidentifiedImageError:
        raise UnreadableImageError(f"{path}: not an image") from None
    except Image.DecompressionBombError:
        raise UnreadableImageError(f"{path}: the image has too many pixels") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise
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


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip to white
        tones = np.asarray(image).astype(np.float64) / 257
        image = Image.fromarray(tones.round().clip(0, 255).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


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
