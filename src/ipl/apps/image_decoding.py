"""Bytes from a client to a small image; what they claim to be is checked before decoding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from PIL import Image

from ipl.apps.limits import Refusal
from ipl.backbone.preprocessing import Preprocessing, centre_offset
from ipl.datasets.images import (
    ImageTooLargeError,
    NotAnImageError,
    UnreadableImageError,
    check_image,
    image_formats,
    read_image,
)

NAME = "image"  # the field of a request
JPEG = b"\xff\xd8"
SCAN = b"\xff\xda"
# Each scan of a JPEG may paint the whole image again: few bytes, much work. Photographs have one
# scan, or about ten if they are progressive.
MAX_SCANS = 100
FULL_SCANS = 16  # of an image with as many pixels as are allowed
# A JPEG is decoded at a reduced size that is still so many times the one that the backbone sees;
# what it sees then differs by 3 of 255 at most (benchmarks/costly_images.py --tolerance).
ENOUGH = 4


def decode_image(data: bytes, max_pixels: int, preprocessing: Preprocessing) -> Image.Image:
    """Returns a small image that looks to the backbone as the one in these bytes would.

    Of an animation only the first frame is decoded, and of a large JPEG not every pixel.
    """
    check_image_header(data, max_pixels)
    with _refusals():
        image = read_image(BytesIO(data), NAME, max_pixels, ENOUGH * preprocessing.resize)
        return shrink(image, preprocessing)


def check_image_header(data: bytes, max_pixels: int) -> int:
    """Returns how many pixels all scans of an image have in its header.

    Raises Refusal for bytes that are not an image, or would take too much to decode.
    """
    with _refusals():
        width, height = check_image(data, NAME, max_pixels)
    scans = data.count(SCAN) if data.startswith(JPEG) else 0
    most = min(MAX_SCANS, FULL_SCANS * max_pixels // max(1, width * height))
    if scans > max(most, 2):  # a large photograph has a second one in its thumbnail
        raise Refusal(
            413,
            f"{NAME}: {width:,} x {height:,} pixels in {scans:,} scans take too long to decode; "
            "save it as a plain JPEG.",
        )
    return width * height * max(1, scans)


def allowed_formats() -> str:
    """Returns the formats that can be read, as the end of a sentence."""
    *others, last = image_formats()
    return f"allowed are {', '.join(others)} and {last}"


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


@contextmanager
def _refusals() -> Iterator[None]:
    """Raises Refusal, with its status, for an image that cannot be read."""
    try:
        yield
    except ImageTooLargeError as error:
        raise Refusal(413, f"{error}.") from None
    except MemoryError:
        raise Refusal(413, f"{NAME}: there is not enough memory to decode it.") from None
    except NotAnImageError as error:
        raise Refusal(415, f"{error}; {allowed_formats()}.") from None
    except UnreadableImageError as error:
        raise Refusal(422, f"{error}.") from None
