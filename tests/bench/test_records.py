"""Run records read back: what is damaged is named, the rest is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.arms import ARMS
from ipl.bench.plan import Plan
from ipl.bench.record_writing import failure
from ipl.bench.records import RunRecord, pool_name, read_records
from ipl.bench.run import expand
from ipl.support.errors import DataError
from tests.helpers.records import record, search, write_records

SETTINGS = record()["settings"]


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


def test_what_a_run_cost_comes_back(tmp_path: Path) -> None:
    costs = {
        "device": "cpu",
        "seconds": {"fit": 2.5, "test": 1},
        "peak_memory": 1000,
        "profile": {"source": "process", "utilisation": None},
        "selection": search((0.5, 0.25)),
        "history": {"epochs": [], "seconds": 1.5},
    }
    bare, full = sorted(
        read_records([write_records(tmp_path, record(seed=1), record(seed=2) | costs)])[0],
        key=lambda run: run.seed,
    )
    assert (bare.device, bare.seconds, bare.peak_memory, bare.profile) == (None, {}, None, None)
    assert bare.selection is bare.history is None
    assert (full.device, full.peak_memory, full.profile) == ("cpu", 1000, costs["profile"])
    assert full.seconds == {"fit": 2.5, "test": 1}
    assert full.selection is not None
    assert [step.seconds for step in full.selection.steps] == [0.5, 0.25]
    assert full.history is not None
    assert full.history.seconds == 1.5


def test_every_run_has_the_settings_that_its_record_must_have() -> None:
    values = {"protocol": "few-shot", "datasets": "dtd", "given": "sand, stone", "words": "0,2"}
    runs = [
        *expand(Plan.from_values({**values, "arms": ",".join(ARMS)})),
        *expand(Plan.from_values({**values, "arms": "empty,random,words", "words": "auto"})),
    ]
    records = [RunRecord.from_dict(failure(run, "No room.")) for run in runs]
    assert [record.arm for record in records] == [run.arm for run in runs]
    assert {record.arm for record in records} == set(ARMS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "is not a run record of format 2: its format is 1"),
        ({"seed": 10**400}, r"seed is 10{59}\.\.\.; it must be a whole number"),
        ({"words": "few"}, "words is 'few'"),
        ({"protocol": "other"}, "protocol is 'other'"),
        ({"status": "failed"}, "status is 'failed'"),
        ({"accuracy": {"base": 0.5}}, "accuracy of 'novel' is missing"),
        ({"accuracy": {"base": 81.2, "novel": 0.5}}, "accuracy.base is 81.2"),
        ({"accuracy": {"base": float("nan"), "novel": 0.5}}, "accuracy.base is NaN"),
        ({"profile": {"source": "nvml", "utilisation": {"mean": 1}}}, "utilisation.p95 is missing"),
        ({"selection": {**search((1.0,)), "pool_size": None}}, "selection.pool_size is null"),
        ({"history": {"epochs": [], "second": 1}}, "history.seconds is missing"),
        ({"settings": {"m": 4}}, "settings.average_mean is missing"),
        ({"settings": {**SETTINGS, "lr": 0}}, "lr is 0.0"),
        ({"settings": {**SETTINGS, "pool": {"words_file": 3}}}, "settings.pool.words_file is 3"),
        ({"arm": "plain"}, "arm is 'plain', but the other values are those of words"),
        ({"dataset": "\ud800"}, r'dataset is "\\ud800"; it must be a text'),
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


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_no_record_at_all(text: str, tmp_path: Path) -> None:
    folder = write_records(tmp_path, record())
    (folder / "records" / "broken.json").write_text(text)
    results, (note,) = read_records([folder])
    assert len(results) == 1
    assert "broken.json" in note


def test_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no folder .*nowhere"):
        read_records([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="There is no run record in .*; `ipl bench"):
        read_records([tmp_path])
    write_records(tmp_path, {**record(), "format": 7})
    with pytest.raises(DataError, match=r"are damaged \(1\)\. The first: .*format is 7\.$"):
        read_records([tmp_path])


def test_the_same_run_in_two_folders_counts_once(tmp_path: Path) -> None:
    failed = record(error="No room.")
    failed["time"] = "2027-01-01T00:00:00"
    first = write_records(tmp_path / "first", failed)
    second = write_records(tmp_path / "second", record())
    (result,), (note,) = read_records([first, second])
    assert result.done  # finished counts before later
    kept = second / "records" / f"{result.id}.json"
    assert note == (
        f"The run {result.id} was recorded more than once, with different results; {kept} counts."
    )
    other = write_records(tmp_path / "third", record(accuracy={"base": 0.1, "novel": 0.1}))
    (result,), (note,) = read_records([second, other])  # recorded in the same second
    assert result.accuracy == {"base": 0.8, "novel": 0.6}
    assert note.endswith(f"with different results; {kept} counts.")
    assert read_records([second, second])[1] == []


def test_pools_have_names() -> None:
    assert pool_name({"words_file": None, "sha256": "ab" * 32, "no_names": False}) == "bundled"
    assert pool_name({"words_file": None, "sha256": "", "no_names": True}) == (
        "bundled without names"
    )
    own = {"words_file": "lists/mine.txt", "sha256": "ab" * 32, "no_names": False}
    assert pool_name(own) == "mine.txt abababab"
