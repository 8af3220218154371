"""The registry of learners by name, with those of installed packages.

A package announces its learners as entry points of the group `ipl.learners`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from ipl.learners.learner import Learner
from ipl.support.errors import ConfigError, did_you_mean

_LEARNERS: dict[str, type[Learner]] = {}
L = TypeVar("L", bound="type[Learner]")


def register(cls: L) -> L:
    """Register a learner under its `name`, so that it can be used by that name.

    Parameters
    ----------
    cls : type
        A subclass of `Learner` with a `name` of its own.

    Returns
    -------
    type
        The class itself, so that this can be used as a decorator.

    Raises
    ------
    ConfigError
        If the class has no name of its own, lacks a method that every learner has, or if another
        class is registered under the same name.

    Examples
    --------
    >>> from ipl.learners import CoOp, register
    >>> @register  # doctest: +SKIP
    ... class MyLearner(CoOp):
    ...     name = "mine"
    """
    name = getattr(cls, "name", "")
    known = _LEARNERS.get(name, cls)
    # The same class from a module that was loaded again replaces its earlier version.
    taken = (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
    if "name" not in vars(cls) and (taken or not name):
        raise ConfigError(
            f"The learner {cls.__name__} has no name of its own; give it one, such as "
            f'name = "{cls.__name__.lower()}".'
        )
    if taken:
        raise ConfigError(f"A learner named {name!r} is already registered.")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ConfigError(
            f"The learner {name!r} lacks {' and '.join(missing)}; derive it from a learner that "
            "has them, such as CoOp, or write them."
        )
    _LEARNERS[name] = cls
    return cls


def learner_class(name: str) -> type[Learner]:
    """The learner of a name, such as "coop".

    Raises ConfigError if there is none; the message suggests similar names.
    """
    if name not in _LEARNERS:
        _load_plugins()
    if name not in _LEARNERS:
        raise ConfigError(f"No learner is called {name!r}.{did_you_mean(name, _LEARNERS)}")
    return _LEARNERS[name]


def known_learners() -> tuple[str, ...]:
    """The names of all learners, those of installed packages included, sorted."""
    _load_plugins()
    return tuple(sorted(_LEARNERS))


@cache
def _load_plugins() -> None:
    """Registers the learners that installed packages announce."""
    for plugin in entry_points(group="ipl.learners"):
        try:
            register(plugin.load())
        except Exception as error:  # a broken package must not disable the others
            warnings.warn(f"The learner {plugin.name!r} cannot be loaded: {error!r}", stacklevel=2)
