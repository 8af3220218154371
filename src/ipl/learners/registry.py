"""Names of learners; a user's own registers with the decorator or an entry point `ipl.learners`."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from ipl.learners.learner import Learner
from ipl.support.errors import ConfigError, did_you_mean

_LEARNERS: dict[str, type[Learner]] = {}
L = TypeVar("L", bound=type[Learner])


def register(cls: L) -> L:
    """Returns the class, known from now on under its `name`."""
    known = _LEARNERS.get(cls.name, cls)
    # The same class again, from a module that was loaded again, takes its old place.
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ConfigError(f"A learner named {cls.name!r} is registered already.")
    _LEARNERS[cls.name] = cls
    return cls


def learner_class(name: str) -> type[Learner]:
    """Returns the learner registered under a name."""
    if name not in _LEARNERS:
        _load_plugins()
    if name not in _LEARNERS:
        raise ConfigError(f"No learner is called {name!r}.{did_you_mean(name, _LEARNERS)}")
    return _LEARNERS[name]


def known_learners() -> tuple[str, ...]:
    """Returns the registered names, sorted."""
    _load_plugins()
    return tuple(sorted(_LEARNERS))


@cache
def _load_plugins() -> None:
    """Imports what installed packages announce as `ipl.learners`; importing registers it."""
    for plugin in entry_points(group="ipl.learners"):
        try:
            register(plugin.load())
        except Exception as error:  # a broken package must not take the others with it
            warnings.warn(f"The learner {plugin.name!r} cannot be loaded: {error!r}", stacklevel=2)
