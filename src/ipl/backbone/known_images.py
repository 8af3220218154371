"""Whether images look like those that the bundled backbone was trained on, by their class names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from ipl.backbone.families import POCKET, POCKET_FOLDER

# The published datasets that PocketCLIP was trained on, by its card; the labels of the last four
# only of up to 20 validation images a class, all classes. The drawn scenes are not among them: it
# saw 800 others, without the names of their classes.
TRAINED_ON = (
    *("imagenet", "food101", "stanford_cars"),
    *("caltech101", "oxford_pets", "oxford_flowers", "eurosat"),
)
FEWEST, SHARE = 3, 0.75  # of the class names that must be those of a set


def note_known_images(backbone: str, class_names: Sequence[str]) -> tuple[str, ...]:
    """A warning if PocketCLIP was trained on a set with these class names, else nothing."""
    if backbone != POCKET:
        return ()
    names = {_letters(name) for name in class_names}
    for title, known in _known_classes().items():
        shared = len(names & known)
        if shared >= FEWEST and shared >= SHARE * len(names):
            return (
                f"{'All' if shared == len(names) else f'{shared} of'} {len(names)} class names "
                f"are those of {title}, and PocketCLIP was trained on images of that set: if these "
                "are such images, every accuracy here, zero-shot included, is higher than it would "
                "be on images that are new to it.",
            )
    return ()


@cache
def _known_classes() -> dict[str, frozenset[str]]:
    text = (POCKET_FOLDER / "known_classes.json").read_text(encoding="utf-8")
    return {title: frozenset(map(_letters, names)) for title, names in json.loads(text).items()}


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
