"""Opening one picture, or saying why it cannot be opened."""

from __future__ import annotations

import warnings
from pathlib import Path

from PIL import Image, ImageOps

from ipl.errors import DataError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)
# Files that systems put into picture folders; nobody means them as data.
LITTER = frozenset({"thumbs.db", "desktop.ini"})


class UnreadableImageError(DataError):
    """A file that is missing, not a picture, or cut short."""


def open_image(path: Path) -> Image.Image:
    """Returns the picture in RGB, upright; raises UnreadableImageError with the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata are not the user's
            with Image.open(path) as image:
                image.load()
                upright = ImageOps.exif_transpose(image)
                if upright.mode == "P" and "transparency" in upright.info:
                    upright = upright.convert("RGBA")
                return upright.convert("RGB")
    except FileNotFoundError:
        raise UnreadableImageError(f"{path}: no such file") from None
    except Image.DecompressionBombError:
        raise UnreadableImageError(f"{path}: too many pixels to be a photograph") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise
        truncated = "truncated" in str(error).lower() or isinstance(error, EOFError)
        reason = "the file is truncated" if truncated else "not an image"
        raise UnreadableImageError(f"{path}: {reason}") from None


def is_image_name(path: Path) -> bool:
    """Returns whether the file's name says it is a picture."""
    return path.suffix.lower() in EXTENSIONS


def is_litter(path: Path) -> bool:
    """Returns whether the file is hidden or one that a system leaves in every folder."""
    return path.name.startswith(".") or path.name.lower() in LITTER
