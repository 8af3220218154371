"""Numbers, counts and lists in sentences and tables."""

from __future__ import annotations

from ipl.display.formatting import (
    first_few,
    listed,
    number,
    percent,
    points,
    several,
    signed,
)


def test_numbers_have_a_real_minus_sign() -> None:
    assert number(-1.23456) == "\N{MINUS SIGN}1.2346"
    assert number(2, 1) == "2.0"
    assert signed(0.5, 1) == "+0.5"
    assert signed(-0.5, 1) == "\N{MINUS SIGN}0.5"
    assert points(-0.123) == "\N{MINUS SIGN}12.3"
    assert percent(0.5) == "50.0\N{NO-BREAK SPACE}%"
    assert percent(None) == ""


def test_counts_and_lists() -> None:
    assert several(1, "word") == "1 word"
    assert several(1200, "word") == "1,200 words"
    assert several(2, "class", "classes") == "2 classes"
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert first_few(["a", "b", "c"]) == "a, b and c"
    assert first_few(["a", "b", "c", "d"]) == "a, b, c and 1 more"
