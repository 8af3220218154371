"""Writes a contact sheet of the scenes: `python -m ipl_scenes docs/scenes.png`."""

from __future__ import annotations

import argparse

from PIL import Image

from ipl_scenes import CLASSES, STYLES, contact_sheet


def main() -> None:
    """Writes the contact sheet to the path on the command line."""
    parser = argparse.ArgumentParser(prog="python -m ipl_scenes", description=__doc__)
    parser.add_argument("path", help="PNG to write")
    parser.add_argument("--style", choices=STYLES, help="draw only this style (default: all four)")
    parser.add_argument("--columns", type=int, default=8, help="images per class (default: 8)")
    parser.add_argument("--classes", help="draw only these classes: a,b,c (default: all twenty)")
    parser.add_argument(
        "--colours", type=int, default=256, help="colours in the palette of the PNG (default: 256)"
    )
    options = parser.parse_args()
    names = options.classes.split(",") if options.classes else CLASSES
    sheet = contact_sheet(options.style, columns=options.columns, names=names)
    # A palette keeps the PNG small enough for a repository.
    sheet.quantize(options.colours, dither=Image.Dither.NONE).save(options.path, optimize=True)


if __name__ == "__main__":
    main()
