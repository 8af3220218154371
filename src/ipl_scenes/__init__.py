"""Scenes: 20 classes of landscapes and landmarks drawn by code, in four styles.

The images need no download and no licence. Each is determined by its class, index and style: the
same three give the same bytes in every process (with the same version of Pillow).
"""

from ipl_scenes.canvas import SIZE
from ipl_scenes.drawing import CLASSES, STYLES, contact_sheet, draw

__all__ = ["CLASSES", "SIZE", "STYLES", "contact_sheet", "draw"]
