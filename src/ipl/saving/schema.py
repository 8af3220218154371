"""The fields of config.json and their allowed values, and the check of a file against them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ipl.config import settings
from ipl.support.errors import MAX_CHARACTERS
from ipl.training.baseline_names import NAMES


@dataclass(frozen=True)
class Kind:
    """The allowed values of a field; `allowed` follows "it must be" in a message."""

    allowed: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class OrNull:
    """A shape whose value may also be null."""

    shape: Shape


@dataclass(frozen=True)
class Entries:
    """An object with any names, whose values all have one shape."""

    shape: Shape


# A list has one shape for all its items. In an object, a name that ends in ? may be missing: not
# every version of ipl wrote it. Names that are not in the table are ignored.
Shape = Kind | OrNull | Entries | list["Shape"] | dict[str, "Shape"]


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # neither NaN nor infinity


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.maxsize


def _is_text(value: Any) -> bool:
    # Half of a surrogate pair cannot be written to a file or a terminal.
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


TEXT = Kind("a text", _is_text)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", _is_number)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
COUNT = Kind("a whole number from 0", lambda value: _is_whole(value) and value >= 0)
POSITIVE = Kind("a whole number from 1", lambda value: _is_whole(value) and value >= 1)
VIEWS = Kind('a whole number from 0, or "fresh"', lambda v: COUNT.fits(v) or v == "fresh")
RANKED = Kind(
    "a pair of a word and a number",
    lambda v: isinstance(v, list) and len(v) == 2 and TEXT.fits(v[0]) and NUMBER.fits(v[1]),
)
COLOURS = Kind(
    "a list of three numbers",
    lambda v: isinstance(v, list) and len(v) == 3 and all(map(NUMBER.fits, v)),
)
HASHES = Kind(
    "numbers of 12 hexadecimal digits, or p and such a number, with blanks between them",
    lambda v: isinstance(v, str) and re.fullmatch("(p?[0-9a-f]{12}( (?!$)|$))+", v) is not None,
)
METHOD = Kind(f"one of {', '.join(NAMES)}", lambda value: _is_text(value) and value in NAMES)

STEP: Shape = {
    "word": TEXT,
    "utility": NUMBER,
    "redundancy": NUMBER,
    "gain": NUMBER,
    "loss": NUMBER,
    "runners_up": [RANKED],
    "scored": COUNT,
    "seconds": NUMBER,
    "certified?": FLAG,
    "compared?": COUNT,
    "rising?": COUNT,
    "margin?": NUMBER,
    "recalled?": OrNull(FLAG),
    "certainty?": OrNull({"wins": SHARE, "low": NUMBER, "high": NUMBER}),
}
SELECTION: Shape = {
    "words?": [TEXT],
    "steps": [STEP],
    "loss_without_words": NUMBER,
    "template": TEXT,
    "lambda_": NUMBER,
    "preset": TEXT,
    "word_embedding": TEXT,
    "pool_size": COUNT,
    "pool_sha256": TEXT,
    "search?": TEXT,
    "stopped_before?": OrNull(STEP),
    "certified?": FLAG,
    "recall?": OrNull(SHARE),
    "diminishing_returns?": {
        "gains": [NUMBER],
        "objective": [NUMBER],
        "pairs": COUNT,
        "violations": COUNT,
        "share": OrNull(SHARE),
    },
}
HISTORY: Shape = {
    "epochs": [{"epoch": COUNT, "lr": NUMBER, "loss": NUMBER, "word": OrNull(TEXT)}],
    "seconds": NUMBER,
}
TRAINING: Shape = {
    "data": TEXT,
    "classes?": [TEXT],
    "shots": POSITIVE,
    "images": COUNT,
    "seed": COUNT,
    "views": VIEWS,
    "epochs": POSITIVE,
    "interval": POSITIVE,
    "batch": POSITIVE,
    "lr": NUMBER,
    "m": POSITIVE,
    "depth?": POSITIVE,
    "average_mean?": OrNull(NUMBER),
    "average_std?": NUMBER,
    "class_template?": TEXT,
    "history?": HISTORY,
    "image_hashes?": [HASHES],
}
METHOD_COUNTS: Shape = {
    "name": METHOD,
    "how": TEXT,
    "correct": [COUNT],
    "gained": COUNT,
    "lost": COUNT,
    # What follows from the counts is written for readers of the file.
    "accuracy?": SHARE,
    "interval?": [SHARE],
    "prompt_minus_this?": {"value": NUMBER, "low": NUMBER, "high": NUMBER},
}
COMPARISON: Shape = {
    "verdict?": [TEXT],
    "notes": [TEXT],
    "images": [COUNT],
    "methods": [METHOD_COUNTS],
    "confused": [{"true": TEXT, "predicted": TEXT, "count": COUNT, "of": COUNT}],
}
RESULTS: Shape = {
    "train_accuracy": SHARE,
    "held_out_accuracy": OrNull(SHARE),
    "held_out_images": COUNT,
    "comparison?": OrNull(COMPARISON),
    "words_tried?": [{"words": COUNT, "accuracy": SHARE, "loss": NUMBER}],
}
SETTINGS = {setting.name: Kind(setting.allowed, setting.accepts) for setting in settings()}
FIELDS: dict[str, Shape] = {
    "learner": TEXT,
    "prompt": TEXT,
    "words": [TEXT],
    "placeholder": SETTINGS["placeholder"],
    "backbone": {"name": TEXT, "weights_sha256": TEXT, "precision?": TEXT},
    "preprocessing": {
        "resize": POSITIVE,
        "crop": POSITIVE,
        "mean": COLOURS,
        "std": COLOURS,
        "resample": COUNT,
        "squash?": FLAG,
    },
    "classes": [TEXT],
    "config?": {f"{name}?": kind for name, kind in SETTINGS.items()},
    "alike?": FLAG,
    "training": TRAINING,
    "results": RESULTS,
    "selection": OrNull(SELECTION),
    "ipl_version": TEXT,
}


def faults(value: Any, shape: Shape, name: str = "") -> Iterator[str]:
    """Yields a sentence for each field that is missing, or whose value is not allowed."""
    inner = shape.shape if isinstance(shape, OrNull) else shape
    if value is None and isinstance(shape, OrNull):
        return
    if isinstance(inner, Kind):
        wrong = not inner.fits(value)
    else:
        wrong = not isinstance(value, list if isinstance(inner, list) else dict)
    if wrong:
        yield f"{name} is {_abbreviated(value)}; it must be {_allowed(shape)}."
    elif isinstance(inner, list):
        for number, item in enumerate(value):
            yield from faults(item, inner[0], f"{name}[{number}]")
    elif isinstance(inner, Entries):
        for key, item in value.items():
            if not _is_text(key):
                yield f"{name} has the name {_abbreviated(key)}; a name must be a text."
            yield from faults(item, inner.shape, f"{name}.{_abbreviated(key)[1:-1]}")
    elif isinstance(inner, dict):
        for key, kind in inner.items():
            field = key.removesuffix("?")
            path = f"{name}.{field}" if name else field
            if field in value:
                yield from faults(value[field], kind, path)
            elif field == key:
                yield f"{path} is missing; it must be {_allowed(kind)}."


def _allowed(shape: Shape) -> str:
    if isinstance(shape, OrNull):
        return f"{_allowed(shape.shape)} or null"
    if isinstance(shape, Kind):
        return shape.allowed
    return "a list" if isinstance(shape, list) else "an object"


def _abbreviated(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
