"""Errors that a user can cause; any other exception is a bug and keeps its traceback."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

# Characters that control a terminal, and those that turn the direction of writing.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MAX_CHARACTERS = 60  # of a wrong value in a message
LONGEST_MESSAGE = 4000  # characters
# Bounds the work as well: the whole repr of a few nested lists can be gigabytes long.
_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxlong = MAX_CHARACTERS
_REPR.maxother = MAX_CHARACTERS
_REPR.maxstring = MAX_CHARACTERS + 2  # with its quotes


class IplError(ValueError):
    """Invalid input; the message says in one sentence what is wrong and what is allowed."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten(message))


class ConfigError(IplError):
    """A setting is outside its range, or settings contradict each other."""


class DataError(IplError):
    """Images, class names or word lists cannot be used."""


class BackboneError(IplError):
    """A CLIP or SigLIP cannot be found, loaded or used."""


class FolderInUseError(IplError):
    """Another process is writing a folder."""


class SavedRunError(IplError):
    """A saved run is missing, damaged or of another kind."""


class TrainingError(IplError):
    """Training cannot continue."""


class NotFiniteError(TrainingError):
    """The loss or the prompt contains NaN or infinity."""


def printable(text: str) -> str:
    """A stranger's text without what could control a terminal that shows it."""
    return CONTROLS.sub("", text)


def shorten(message: str) -> str:
    """A message without controls, and without the middle of what is too long to be read."""
    message, half = printable(message), LONGEST_MESSAGE // 2
    return message if len(message) <= 2 * half else f"{message[:half]}...{message[-half:]}"


def brief(value: Any) -> str:
    """The repr of a value, cut after 60 characters."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # Python refuses to write out integers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_CHARACTERS + 2 else f"{text[:MAX_CHARACTERS]}..."


def first_line(error: Exception) -> str:
    """The kind of a library's error and the first line of its message that is no heading."""
    lines = (line.strip() for line in str(error).splitlines())
    line = next((line for line in lines if line and not line.endswith(":")), "")
    return f"{type(error).__name__}: {line}"[:200].rstrip(" .:")


def closest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" with the closest known names, or "" if none is close."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return " Did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" with the closest known names, or a list of all of them."""
    known = list(known)
    return closest(name, known) or " Known: " + ", ".join(known) + "."
