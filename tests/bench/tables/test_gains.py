"""Gains: what words bring over none, pair by pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.bench.tables.gains import gains_table
from tests.helpers.records import record
from tests.helpers.result_tables import result_table


def test_gains_are_over_pairs(tmp_path: Path) -> None:
    runs = []
    for dataset in ("eurosat", "oxford_pets"):
        for seed in (1, 2, 3):
            with_words = {"base": 0.8, "novel": 0.6 + 0.01 * seed}
            runs.append(record(dataset, seed=seed, accuracy=with_words))
            runs.append(record(dataset, words=0, seed=seed, accuracy={"base": 0.8, "novel": 0.6}))
    del runs[1]  # a run without its counterpart is no pair
    (gain,) = result_table(tmp_path, *runs).gains
    assert (gain.method.label, gain.baseline.label) == ("CoOp + IPL", "CoOp")
    assert {measure: test.pairs for measure, test in gain.tests.items()} == {
        "base": 5,
        "novel": 5,
        "hm": 5,
    }
    assert gain.tests["base"].difference == 0
    assert gain.tests["base"].p == 1
    assert gain.tests["novel"].difference == pytest.approx((2 + 3 + 1 + 2 + 3) / 5)
    assert gain.tests["novel"].p == pytest.approx(2 / 32)
    assert gain.differences == ()


def test_a_gain_names_other_settings_that_differ(tmp_path: Path) -> None:
    (gain,) = result_table(tmp_path, record(words=0), record(views=8)).gains
    assert gain.differences == ("views",)
    table = gains_table([gain], "Base-to-novel")
    assert table.title == "Gain of words, base-to-novel"
    assert table.rows[0][:4] == ("CoOp + IPL", "CoOp [1]", "base", "+0.00")
    assert [row[2] for row in table.rows] == ["base", "novel", "HM"]
    assert table.rows[1][:2] == ("", "")
    assert table.footnotes == ["The two also differ in views."]


def test_rows_are_paired_with_their_own_kind(tmp_path: Path) -> None:
    runs = [record(words=words, shots=shots) for words in (0, "auto") for shots in (4, 16)]
    gains = result_table(tmp_path, *runs, record(learner="maple", words=0)).gains
    assert [(gain.method.label, gain.baseline.label) for gain in gains] == [
        ("CoOp + IPL (shots 4)", "CoOp (shots 4)"),
        ("CoOp + IPL (shots 16)", "CoOp (shots 16)"),
    ]
