"""Bytes from a client to a small image: what they claim is checked before they are decoded."""

from __future__ import annotations

import struct
from io import BytesIO

from PIL import Image, UnidentifiedImageError

from ipl.apps.limits import Refusal
from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import FORMATS, ImageSource, UnreadableImageError, open_image

# Of a JPEG. Each scan may paint the whole image again: few bytes, much work. Photographs have
# one, or about ten when they are progressive.
MOST_SCANS = 100
SCAN = b"\xff\xda"
# What Pillow's decoders raise on bytes that were made up, beside what open_image knows.
DECODING = (OSError, SyntaxError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)


def read_image(data: bytes, max_pixels: int, preprocessing: Preprocessing) -> Image.Image:
    """Returns a small image that the backbone sees as it sees the one in these bytes.

    Of an animation that is its first frame; the others are not decoded.
    """
    check_header(data, max_pixels)
    try:
        image = open_image(ImageSource("image", lambda: _decode(data)))
        return as_seen(image, preprocessing)
    except UnreadableImageError as error:
        raise Refusal(422, f"{error}.") from None
    except DECODING:
        raise Refusal(422, "image: the image is damaged.") from None


def check_header(data: bytes, max_pixels: int) -> None:
    """Raises Refusal for what is no image, or would be too large once it is decoded."""
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            kind, (width, height) = image.format, image.size
    except UnidentifiedImageError:
        known = ", ".join(FORMATS[:-1])
        raise Refusal(
            415, f"image is not an image; allowed are {known} and {FORMATS[-1]}."
        ) from None
    except Image.DecompressionBombError:
        raise Refusal(413, f"image has more than {max_pixels:,} pixels.") from None
    except DECODING:
        raise Refusal(422, "image: the image is damaged.") from None
    if width * height > max_pixels:
        raise Refusal(
            413, f"image has {width:,} x {height:,} pixels; at most {max_pixels:,} are allowed."
        )
    if kind in ("JPEG", "MPO") and data.count(SCAN) > MOST_SCANS:
        raise Refusal(413, f"image has more than {MOST_SCANS} scans; save it as a plain JPEG.")


def as_seen(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """Returns the part that the backbone sees, framed so that its transform changes nothing.

    Many images may wait for the model; they wait in the size it wants.
    """
    seen = Image.fromarray(preprocessing.evaluate(image))
    margin = 0 if preprocessing.squash else preprocessing.resize - preprocessing.crop
    if not margin:
        return seen
    framed = Image.new("RGB", (preprocessing.resize, preprocessing.resize))
    framed.paste(seen, (margin // 2, margin // 2))
    return framed


def _decode(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data), formats=FORMATS)
    image.load()
    return image
