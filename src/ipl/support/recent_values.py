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
        self._most_free = 0

    def most_free(self, free: int) -> int:
        """The most that was ever free: the values themselves take some of it since."""
        self._most_free = max(self._most_free, free)
        return self._most_free

    def get(self, key: Hashable) -> Any:
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def get_or_make(self, key: Hashable, make: Callable[[], Value], size: int, limit: int) -> Value:
        """A value, made now if it is not here, of `size` bytes.

        The least recently used of the others are dropped until all take `limit` bytes at most; a
        value that is larger is not stored.
        """
        if (stored := self.get(key)) is not None:
            value: Value = stored
            return value
        while self._values and size + sum(each for _, each in self._values.values()) > limit:
            self._values.popitem(last=False)
        value = make()
        if size <= limit:
            self._values[key] = value, size
        return value
