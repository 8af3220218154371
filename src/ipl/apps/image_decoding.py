"""Bytes from a client to a small image; what they claim to be is checked before decoding."""

from __future__ import annotations

from io import BytesIO

from PIL import Image, UnidentifiedImageError

from ipl.apps.limits import Refusal
from ipl.backbone.preprocessing import Preprocessing, centre_offset
from ipl.datasets.images import (
    DECODING_ERRORS,
    FORMATS,
    ImageSource,
    UnreadableImageError,
    open_image,
)

# Each scan of a JPEG may paint the whole image again: few bytes, much work. Photographs have one
# scan, or about ten if they are progressive.
MAX_SCANS = 100
SCAN = b"\xff\xda"


def decode_image(data: bytes, max_pixels: int, preprocessing: Preprocessing) -> Image.Image:
    """Returns a small image that looks to the backbone as the one in these bytes would.

    Of an animation only the first frame is decoded.
    """
    check_image_header(data, max_pixels)
    try:
        image = open_image(ImageSource("image", lambda: _decode(data)))
        return shrink(image, preprocessing)
    except UnreadableImageError as error:
        raise Refusal(422, f"{error}.") from None
    except DECODING_ERRORS:
        raise Refusal(422, "image: the image is damaged.") from None


def check_image_header(data: bytes, max_pixels: int) -> None:
    """Raises Refusal for bytes that are not an image or would be too large once decoded."""
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            kind, (width, height) = image.format, image.size
    except UnidentifiedImageError:
        formats = ", ".join(FORMATS[:-1])
        raise Refusal(
            415, f"image is not an image; allowed are {formats} and {FORMATS[-1]}."
        ) from None
    except Image.DecompressionBombError:
        raise Refusal(413, f"image has more than {max_pixels:,} pixels.") from None
    except DECODING_ERRORS:
        raise Refusal(422, "image: the image is damaged.") from None
    if width * height > max_pixels:
        raise Refusal(
            413, f"image has {width:,} x {height:,} pixels; at most {max_pixels:,} are allowed."
        )
    if kind in ("JPEG", "MPO") and data.count(SCAN) > MAX_SCANS:
        raise Refusal(413, f"image has more than {MAX_SCANS} scans; save it as a plain JPEG.")


def shrink(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """Returns the part of an image that the backbone sees, framed so that nothing is cut off it.

    Many images may be waiting for the model; they wait in the size that it takes.
    """
    crop = Image.fromarray(preprocessing.evaluate(image))
    margin = 0 if preprocessing.squash else preprocessing.resize - preprocessing.crop
    if not margin:
        return crop
    framed = Image.new("RGB", (preprocessing.resize, preprocessing.resize))
    framed.paste(crop, (centre_offset(margin), centre_offset(margin)))
    return framed


def _decode(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data), formats=FORMATS)
    image.load()
    return image
