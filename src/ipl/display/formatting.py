"""How numbers, counts and lists are written in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float, digits: int = 4) -> str:
    """A number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 4) -> str:
    """A number with its sign, plus or minus."""
    text = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return text if any(digit in text for digit in "123456789") else text[1:]


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent; nothing for None."""
    return "" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return signed(100 * value, 1)


def range_of_percent(low: float, high: float, digits: int = 1) -> str:
    """An interval of shares as per cent: "43.1 to 56.9"."""
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def several(count: int, singular: str, plural: str | None = None) -> str:
    """A count with its noun: "1 word" or "2 words"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """Returns "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def first_few(names: Sequence[str]) -> str:
    """Up to three names, and how many more there are: "a, b, c and 4 more"."""
    more = [f"{len(names) - 3:,} more"] if len(names) > 3 else []
    return listed([*names[:3], *more])
