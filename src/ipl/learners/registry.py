"""Names of learners; a user's own registers here with a decorator."""

from __future__ import annotations

from typing import TypeVar

from ipl.errors import ConfigError, did_you_mean
from ipl.learners.base import Learner

_LEARNERS: dict[str, type[Learner]] = {}
L = TypeVar("L", bound=type[Learner])


def register(cls: L) -> L:
    """Returns the class, known from now on under its `name`."""
    if _LEARNERS.get(cls.name, cls).__qualname__ != cls.__qualname__:
        raise ConfigError(f"A learner named {cls.name!r} is registered already.")
    _LEARNERS[cls.name] = cls
    return cls


def learner_class(name: str) -> type[Learner]:
    """Returns the learner registered under a name."""
    if name not in _LEARNERS:
        raise ConfigError(f"No learner is called {name!r}.{did_you_mean(name, _LEARNERS)}")
    return _LEARNERS[name]


def known_learners() -> tuple[str, ...]:
    """Returns the registered names, sorted."""
    return tuple(sorted(_LEARNERS))
