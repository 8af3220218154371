"""Large values in memory up to a number of bytes; the least recently used are dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class RecentValues:
    """Values by key, each made when it is first asked for."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()  # with their bytes
        self._most_room = 0

    def most_room(self, free: int) -> int:
        """Returns the most that was ever free: what is kept since then takes some of it."""
        self._most_room = max(self._most_room, free)
        return self._most_room

    def get(self, key: Hashable) -> Any:
        """Returns a value, or None if it is not kept."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def keep(self, key: Hashable, make: Callable[[], Value], size: int, room: int) -> Value:
        """Return a value that is kept, or make it.

        Parameters
        ----------
        key : hashable
            Everything that decides the value.
        make : callable
            Returns the value; called only if it is not kept.
        size : int
            Bytes that the value takes.
        room : int
            Bytes that it may take together with the earlier ones. The least recently used of those
            are dropped first; a value that is larger than all the room is not kept.
        """
        if (kept := self.get(key)) is not None:
            value: Value = kept
            return value
        while self._values and size + sum(each for _, each in self._values.values()) > room:
            self._values.popitem(last=False)
        value = make()
        if size <= room:
            self._values[key] = value, size
        return value
