"""Errors that a user can cause; any other exception is a bug and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class IplError(ValueError):
    """Invalid input; the message says in one sentence what is wrong and what is allowed."""


class ConfigError(IplError):
    """A setting is outside its range, or settings contradict each other."""


class NotFittedError(ConfigError, AttributeError):
    """A classifier was used before it was fitted."""


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


def closest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" with the closest known names, or "" if none is close."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return " Did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" with the closest known names, or a list of all of them."""
    known = list(known)
    return closest(name, known) or " Known: " + ", ".join(known) + "."
