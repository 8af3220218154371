"""Run records read back: what is damaged is named, the rest is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.records import read_records
from ipl.support.errors import DataError
from tests.helpers.records import record, search, write_records


def test_a_record_comes_back(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record(seed=2, lr=0.01))
    assert read_records(str(folder)) == read_records([folder])
    (result,), notes = read_records(folder)
    assert notes == []
    identity = (result.dataset, result.learner, result.words, result.seed)
    assert identity == ("oxford_pets", "coop", "paper", 2)
    assert result.accuracy == {"base": 0.8, "novel": 0.6}
    assert result.done
    assert result.config()["lr"] == 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "it is not a run record of format"),
        ({"protocol": "other"}, "protocol is 'other'"),
        ({"accuracy": {"base": 0.5}}, "accuracy of 'novel' is missing"),
        ({"accuracy": {"base": 81.2, "novel": 0.5}}, "accuracy.base is 81.2"),
        ({"selection": {**search((1.0,)), "pool_size": None}}, "selection.pool_size is"),
    ],
)
def test_a_damaged_record_is_named_and_left_out(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = write_records(tmp_path, record(seed=1))
    text = json.dumps({**record(seed=2), "id": "bad", **change})
    (folder / "records" / "bad.json").write_text(text)
    (result,), (note,) = read_records([folder])
    assert result.seed == 1
    assert "bad.json" in note
    assert note.endswith("It is left out.")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(note)


def test_no_valid_record(tmp_path: Path) -> None:
    write_records(tmp_path, {**record(), "format": 7})
    with pytest.raises(DataError, match=r"are damaged \(1\)\. The first: .*of format"):
        read_records([tmp_path])


def test_the_same_run_in_two_folders_counts_once(tmp_path: Path) -> None:
    failed = record(error="No room.") | {"time": "2027-01-01T00:00:00"}
    first = write_records(tmp_path / "first", failed)
    second = write_records(tmp_path / "second", record())
    (result,), _ = read_records([first, second])
    assert result.done  # finished counts before later
