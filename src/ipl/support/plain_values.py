"""Dataclasses from the plain values of a JSON file, each value checked."""

from __future__ import annotations

import re
import sys
from dataclasses import is_dataclass
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ipl.support.errors import ConfigError, brief

T = TypeVar("T")
Share = Annotated[float, "from 0 to 1"]
NOUNS = {str: "a text", bool: "true or false", int: "a whole number from 0", float: "a number"}
NOUNS |= {Share: "a number from 0 to 1", NoneType: "null", tuple: "a list", dict: "an object"}


def from_plain(kind: type[T], values: Any, name: str = "") -> T:
    """The object that plain values of JSON stand for; ConfigError names a wrong field.

    A dataclass or NamedTuple may have fields of type str, bool, int (from 0), float
    (finite), `Share`, Any, tuple, dict with texts as keys, None, or other such classes. What it has
    no field for is passed over. `name` is what the values are called in the file.
    """
    result: T = _read(kind, values, name)
    return result


def _read(kind: Any, value: Any, name: str) -> Any:
    allowed = kind
    if get_origin(kind) in (UnionType, Union):
        kind = next((each for each in get_args(kind) if _fits(each, value)), None)
    if kind is None or not _fits(kind, value):
        raise ConfigError(f"{name} is {brief(value)}; it must be {_noun(allowed)}.")
    if hints := _fields(kind):
        if isinstance(value, list):  # a NamedTuple may be written without names
            value = dict(zip(hints, value, strict=False))
        values = {}
        for field, hint in hints.items():
            place = f"{name}.{field}" if name else field
            if field not in value:
                raise ConfigError(f"{place} is missing; it must be {_noun(hint)}.")
            values[field] = _read(hint, value[field], place)
        return kind(**values)
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        kinds = repeat(arguments[0]) if arguments[-1] is Ellipsis else arguments
        pairs = enumerate(zip(kinds, value, strict=False))
        return tuple(_read(each, item, f"{name}[{i}]") for i, (each, item) in pairs)
    if get_origin(kind) is dict:
        return {key: _read(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    return float(value) if kind in (float, Share) else value


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value is of a type as far as can be told without looking into it."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is Any:
        return True
    if kind in (float, Share):
        return number and abs(value) <= sys.float_info.max and (kind is float or 0 <= value <= 1)
    if kind is int:
        return number and isinstance(value, int) and 0 <= value <= sys.maxsize
    if kind is str:  # half of a surrogate pair cannot be written to a file or a terminal
        return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)
    if kind in (bool, NoneType):
        return isinstance(value, kind)
    if get_origin(kind) is tuple:
        sizes = get_args(kind)
        return isinstance(value, list) and (Ellipsis in sizes or len(value) == len(sizes))
    if isinstance(value, list):
        return _is_named_tuple(kind) and len(value) == len(_fields(kind))
    return isinstance(value, dict) and all(_fits(str, key) for key in value)


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """The type of each field of a class; {} of others."""
    if is_dataclass(kind) or _is_named_tuple(kind):
        return get_type_hints(kind, include_extras=True)
    return {}


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _noun(kind: Any) -> str:
    """The allowed values of a type, to follow "it must be" in a message."""
    if get_origin(kind) in (UnionType, Union):
        return " or ".join(_noun(each) for each in get_args(kind))
    if kind in NOUNS:
        return NOUNS[kind]
    return NOUNS.get(get_origin(kind), "a list" if _is_named_tuple(kind) else "an object")
