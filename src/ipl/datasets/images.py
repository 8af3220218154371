"""Opens images, or says why one cannot be opened; and finds image files in folders.

What is decoded is bounded: by a number of pixels for each image, and in bytes for all threads
together. An image of more than EXACT_PIXELS is reduced by a whole factor while it is decoded.
"""

from __future__ import annotations

import base64
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from ipl.support.errors import DataError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
    | {".avif", ".heic", ".heif", ".hif"}
)
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
    RuntimeError,
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
MAX_PIXELS = 100_000_000  # of an image, as it is decoded
EXACT_PIXELS = 25_000_000  # images with more are reduced; all others stay as they are
REDUCED_SIDE = 2048  # pixels that the short side of a reduced image has at least
PLAIN_BYTES = 4  # that a pixel takes in memory
# What a pixel takes at the peak of decoding where that is more, and with its copy (measured).
DECODING_BYTES = {"WEBP": 16, "AVIF": 10, "HEIF": 8, "TIFF": 7, "progressive JPEG": 7}
COPIED_BYTES = 10
MOST_BYTES = max(DECODING_BYTES.values())
STRIP = 64  # rows that are converted at a time
# The first bytes of the formats that are read.
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P6")
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
MAX_BOXES = 100  # of a file that are looked at
THUMBNAIL = 96  # pixels
LITTER = frozenset({"thumbs.db", "desktop.ini"})  # files that systems put into image folders


class UnreadableImageError(DataError):
    """A file is missing, not an image, damaged or too large."""


class NotAnImageError(UnreadableImageError):
    """A file is in none of the formats that can be read."""


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
    """Returns the memory that decoding takes at most, with this limit on the pixels."""
    return max(PLAIN_BYTES * max_pixels, MOST_BYTES * min(max_pixels, EXACT_PIXELS))


_DECODING = MemoryBudget(decoding_bytes(MAX_PIXELS))


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
    with _reasons(name, file), Image.open(file, formats=image_formats()) as image:
        need = prepare_decoding(image, name, max_pixels)
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
    file = BytesIO(data)
    with _reasons(name, file), Image.open(file, formats=image_formats()) as image:
        size = image.size
        prepare_decoding(image, name, max_pixels)
        return size


def prepare_decoding(image: Image.Image, name: str, max_pixels: int) -> int:
    """Lets a large JPEG be decoded at a reduced size; returns the bytes that decoding takes.

    Raises ImageTooLargeError if there are too many pixels, or they take too much memory.
    """
    size, kind = image.size, str(image.format)
    pixels = size[0] * size[1]
    if pixels > EXACT_PIXELS:
        image.draft(None, (REDUCED_SIDE, REDUCED_SIDE))  # to a half, a quarter or an eighth
    if image.info.get("progressive"):
        kind = "progressive JPEG"  # it is in memory as a whole, whatever is made of it
    else:
        pixels = image.width * image.height
    cost = DECODING_BYTES.get(kind, PLAIN_BYTES)
    most = min(max_pixels, max(EXACT_PIXELS, PLAIN_BYTES * max_pixels // cost))
    if pixels > most:
        whose = f" for {kind}" if most < max_pixels else ""
        raise ImageTooLargeError(
            f"{name}: the image has {size[0]:,} x {size[1]:,} pixels; at most {most:,} are "
            f"allowed{whose}"
        )
    return pixels * (cost if pixels > EXACT_PIXELS else max(cost, COPIED_BYTES))


@contextmanager
def _reasons(name: str, file: Path | BytesIO | None = None) -> Iterator[None]:
    """Raises UnreadableImageError, with the reason, for whatever decoders raise."""
    try:
        yield
    except UnreadableImageError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError(f"{name}: no such file") from None
    except UnidentifiedImageError:
        raise _unidentified(name, file) from None
    except _UnsupportedPixels as error:
        raise UnreadableImageError(f"{name}: {error}") from None
    except Image.DecompressionBombError:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # Pillow's own limit
        raise ImageTooLargeError(f"{name}: the image has more than {most:,} pixels") from None
    except DECODING_ERRORS as error:
        text = str(error).lower()
        if isinstance(error, OSError) and error.errno:  # from the system, not from a decoder
            raise UnreadableImageError(f"{name}: {(error.strerror or '').lower()}") from None
        if isinstance(error, MemoryError) or "memory" in text:
            raise ImageTooLargeError(f"{name}: there is not enough memory to decode it") from None
        truncated = "truncated" in text or isinstance(error, EOFError) or _is_cut_short(file)
        reason = "the file is truncated" if truncated else "the image is damaged"
        raise UnreadableImageError(f"{name}: {reason}") from None


def _unidentified(name: str, file: Path | BytesIO | None) -> UnreadableImageError:
    """Returns why Pillow does not recognise a file."""
    with _stream(file) as stream:
        head = stream.read(12)
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if not head and file is not None:
        return NotAnImageError(f"{name}: the file is empty")
    if brand in (b"avif", b"avis") and "AVIF" not in image_formats():
        return NotAnImageError(f"{name}: an AVIF image, which needs Pillow 11.3 or newer")
    if brand in HEIF_BRANDS and "HEIF" not in image_formats():
        return NotAnImageError(f"{name}: a HEIC image, which needs: pip install 'ipl[data]'")
    if _is_cut_short(file):
        return UnreadableImageError(f"{name}: the file is truncated")
    if _is_webp(head):  # the one decoder that takes memory before it says how many pixels
        return UnreadableImageError(f"{name}: the image is damaged, or too large to decode")
    if brand or head.startswith(SIGNATURES):
        return UnreadableImageError(f"{name}: the image is damaged")
    return NotAnImageError(f"{name}: not an image")


def _is_cut_short(file: Path | BytesIO | None) -> bool:
    """Returns whether a WebP, AVIF or HEIC file is shorter than it says; the others' decoders know.

    Those files consist of boxes that begin with their size.
    """
    with _stream(file) as stream:
        head = stream.read(12)
        size = stream.seek(0, os.SEEK_END)
        if _is_webp(head):
            return size < 8 + int.from_bytes(head[4:8], "little")
        if head[4:8] != b"ftyp":
            return False
        end = 0
        for _ in range(MAX_BOXES):
            stream.seek(end)
            box = stream.read(16)
            length = int.from_bytes(box[:4], "big")
            if length == 1:  # too large for four bytes
                length = int.from_bytes(box[8:], "big")
            if length < 8:  # up to the end of the file, or damaged
                return False
            end += length
            if end >= size:
                break
        return end > size


def _is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:] == b"WEBP"


def _stream(file: Path | BytesIO | None) -> BinaryIO:
    """Returns the bytes of a file from its beginning; none if it cannot be read again."""
    if isinstance(file, BytesIO):
        return BytesIO(file.getvalue())
    try:
        return BytesIO() if file is None else open(file, "rb")
    except (OSError, ValueError):  # ValueError: a name with a null character
        return BytesIO()


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
