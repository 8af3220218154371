"""The errors a user can cause; everything else that escapes is a bug and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class IplError(ValueError):
    """A bad input. The message is one sentence that says what is wrong and what would be right."""


class ConfigError(IplError):
    """A setting outside its range, or settings that contradict each other."""


class NotFittedError(ConfigError, AttributeError):
    """A question about a prompt that has not been learnt yet."""


class DataError(IplError):
    """Images, class names or word lists that cannot be used."""


class BackboneError(IplError):
    """A CLIP model that cannot be found, loaded or used."""


class SavedRunError(IplError):
    """A saved prompt that is missing, damaged or made for something else."""


class TrainingError(IplError):
    """Training that cannot go on."""


class NotFiniteError(TrainingError):
    """A loss or a prompt that is no longer a number."""


def closest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" for the closest known names, or nothing if none is close."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return " Did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the closest known names as a question, else all known names."""
    known = list(known)
    return closest(name, known) or " Known: " + ", ".join(known) + "."
