"""`ipl learners`, and `ipl fit` with each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


def test_the_list_has_all_five_with_their_numbers(ipl: Call) -> None:
    rows = ipl("learners", "--device", "cpu", "--json").json["learners"]
    assert [(row["learner"], row["words"]) for row in rows] == [
        (name, words)
        for name in ("cocoop", "coop", "kgcoop", "maple", "promptsrc")
        for words in (0, 3)
    ]
    maple = rows[6]
    assert maple["recipes"]["base-to-novel"]["epochs"] == 5
    assert maple["recipes"]["cross-dataset"]["depth"] == 3
    # 2 vectors, 5 deeper pairs, a matrix and a bias for each of 6 layers of PocketCLIP
    assert maple["parameters"] == 12 * 192 + 6 * (192 * 256 + 256)
    text = ipl("learners", "--device", "cpu").out
    assert "[V V] of a {cls}." in text


@pytest.mark.parametrize("learner", ["cocoop", "kgcoop", "maple", "promptsrc"])
def test_fit_and_predict(learner: str, fit: Call, images: Call) -> None:
    data = images(beach=2, castle=2)
    done = fit(data, "--learner", learner, "--words", 1, "--epochs", 1, "--interval", 1, "--json")
    assert done.json["learner"] == learner
    assert len(done.json["words"]) == 1
