"""Bad input to `ipl fit` and `ipl predict`: one clear sentence, exit code 2, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


# -- data -----------------------------------------------------------------------------------------


def test_no_such_path(refused: Call, home: Path) -> None:
    assert str(home / "nowhere") in refused(home / "nowhere")


def test_overwriting_what_was_not_named(ipl: Call, images: Call) -> None:
    message = ipl("fit", images(beach=2), "--overwrite").error
    assert "--overwrite replaces the run in --out" in message


def test_one_class_only(refused: Call, images: Call) -> None:
    message = refused(images(beach=2))
    assert "'beach'" in message
    assert "at least two" in message


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--words", -1, "words"),
        ("--lr", "nan", "lr"),
        ("--preset", "papr", "preset"),
        ("--views", "many", "views"),
        ("--device", "quantum", "device"),
        ("--precision", "fp8", "precision"),
    ],
)
def test_a_setting_out_of_range_is_named(
    option: str, value: object, named: str, refused: Call, images: Call
) -> None:
    message = refused(images(beach=1, castle=1), option, value)
    assert named in message
    assert str(value) in message


def test_an_unknown_backbone_with_the_closest_name(refused: Call, images: Call) -> None:
    message = refused(images(beach=1, castle=1), "--backbone", "pockt")
    assert "'pockt'" in message
    assert "'pocket'" in message


def test_dropped_words_of_a_list_are_named(fit: Call, images: Call, home: Path) -> None:
    (home / "own.txt").write_text("stone\nxx\nwater\n")
    data = images(beach=1, castle=1)
    result = fit(data, "--words-file", home / "own.txt", "--out", home / "run")
    assert result.code == 0
    assert "'xx' is left out" in result.err
