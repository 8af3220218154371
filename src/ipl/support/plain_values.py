"""Values of a known type from the plain values of a file, each of them checked."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ipl.support.errors import MAX_CHARACTERS, ConfigError

T = TypeVar("T")
Share = Annotated[float, "from 0 to 1"]
UNIONS = (UnionType, Union)
NOUNS = {str: "a text", bool: "true or false", int: "a whole number from 0", float: "a number"}
NOUNS |= {Share: "a number from 0 to 1", NoneType: "null", tuple: "a list", dict: "an object"}


def from_plain(kind: type[T], values: Any, name: str = "") -> T:
    """Returns the object that plain values of JSON stand for.

    Parameters
    ----------
    kind : type
        A dataclass, NamedTuple or TypedDict, with fields of type str, bool, int (from 0), float
        (finite), `Share`, Any, tuple, dict with texts as keys, None, or other such classes. What
        it has no field for is passed over.
    values : object
        The plain values.
    name : str
        What they are called in the file.

    Returns
    -------
    kind
        The object.

    Raises
    ------
    ConfigError
        If a value is missing or not allowed; the sentence names the field.
    """
    result: T = _read(kind, values, name)
    return result


def _read(kind: Any, value: Any, name: str) -> Any:
    allowed = kind
    if get_origin(kind) in UNIONS:
        kind = next((each for each in get_args(kind) if _fits(each, value)), None)
    if kind is None or not _fits(kind, value):
        raise ConfigError(f"{name} is {_abbreviated(value)}; it must be {_noun(allowed)}.")
    if hints := _fields(kind):
        if isinstance(value, list):  # a NamedTuple may be written without names
            value = dict(zip(hints, value, strict=False))
        values = {}
        for field, (hint, required) in hints.items():
            place = f"{name}.{field}" if name else field
            if field in value:
                values[field] = _read(hint, value[field], place)
            elif required:
                raise ConfigError(f"{place} is missing; it must be {_noun(hint)}.")
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
    """Returns whether a value is of a type as far as can be told without looking into it."""
    if kind is Any:
        return True
    if kind in (float, Share):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        finite = number and abs(value) <= sys.float_info.max
        return finite and (kind is float or 0 <= value <= 1)
    if kind is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and 0 <= value <= sys.maxsize
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
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Returns the type of each field of a class, and whether it must be there; {} of others."""
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
    elif _is_named_tuple(kind) or is_typeddict(kind):
        names = list(kind.__annotations__)
    else:
        return {}
    hints = get_type_hints(kind, include_extras=True)
    optional = getattr(kind, "__optional_keys__", ())
    return {name: (hints[name], name not in optional) for name in names}


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _noun(kind: Any) -> str:
    """Returns the allowed values of a type, to follow "it must be" in a message."""
    if get_origin(kind) in UNIONS:
        return " or ".join(_noun(each) for each in get_args(kind))
    if kind in NOUNS:
        return NOUNS[kind]
    return NOUNS.get(get_origin(kind), "a list" if _is_named_tuple(kind) else "an object")


def _abbreviated(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
