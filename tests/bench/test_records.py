"""Run records read back: what is damaged is named, the rest is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.arms import ARMS
from ipl.bench.plan import Plan
from ipl.bench.record_writing import failure
from ipl.bench.records import RECORD, RunRecord, pool_name, read_records
from ipl.bench.run import expand
from ipl.support.errors import DataError
from tests.helpers.records import record, search, write_records


def test_a_record_comes_back(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record(seed=2, lr=0.01))
    (result,), notes = read_records([folder])
    assert notes == []
    assert (result.dataset, result.learner, result.words, result.seed) == (
        "oxford_pets",
        "coop",
        "paper",
        2,
    )
    assert result.accuracy == {"base": 0.8, "novel": 0.6}
    assert result.done
    assert result.config()["lr"] == 0.01
    assert result.config()["backbone"] == "openai/clip-vit-base-patch16"


def test_one_folder_needs_no_list(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record())
    assert read_records(str(folder)) == read_records(folder) == read_records([folder])


def test_the_documentation_has_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    fields = page.partition("| field |")[2].partition("\n\n")[0]
    run = expand(Plan.from_values({"protocol": "few-shot", "datasets": "dtd"}))[0]
    names = {*failure(run, "No room."), *(name.rstrip("?") for name in RECORD)}
    assert [name for name in sorted(names) if f"`{name}`" not in fields] == []


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


def test_without_words_their_settings_do_not_matter(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record(words=0, lambda_=0.1), record(words=0, lambda_=0.7))
    first, second = read_records([folder])[0]
    assert first.config() == second.config()
    assert "template" not in first.config()


def test_zero_shot_has_no_words_and_no_recipe(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record(learner="zero-shot", words="auto", shots=4))
    (result,), _ = read_records([folder])
    assert not result.with_words
    assert set(result.config()) == {"backbone", "weights", "precision"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "is not a run record of format 1: its format is 2"),
        ({"seed": "one"}, 'seed is "one"; it must be a whole number from 0'),
        ({"seed": True}, "seed is true"),
        (
            {"words": None},
            "words is null; it must be a whole number from 0 to 1,000, or auto or paper",
        ),
        ({"protocol": "other"}, 'protocol is "other"; it must be one of base-to-novel'),
        ({"versions": "0.2.0"}, 'versions is "0.2.0"'),
        ({"status": "running"}, 'status is "running"; it must be done or failed'),
        ({"accuracy": {"base": 0.5}}, "accuracy of 'novel' is missing"),
        ({"accuracy": {"base": 81.2, "novel": 0.5}}, "accuracy.base is 81.2"),
        (
            {"accuracy": {"base": float("nan"), "novel": 0.5}},
            "accuracy.base is NaN; it must be",
        ),
        ({"accuracy": {"base": "high", "novel": 0.5}}, 'accuracy.base is "high"'),
        ({"accuracy": None}, "accuracy is null; it must be an object"),
        ({"peak_memory": "much"}, 'peak_memory is "much"; it must be a whole number'),
        ({"seconds": {"fit": "long"}}, 'seconds.fit is "long"; it must be a number'),
        ({"seconds": {"fit": float("inf")}}, "seconds.fit is Infinity; it must be a number"),
        ({"profile": [1]}, "profile is \\[1\\]; it must be an object"),
        ({"profile": {"utilisation": {"mean": 1}}}, "profile.utilisation.p95 is missing"),
        ({"selection": {"words": []}}, "selection.steps is missing"),
        ({"history": {"epochs": [], "second": 1}}, "history.seconds is missing"),
        ({"settings": None}, "settings.average_mean is missing"),
        ({"settings": {"m": 4}}, "settings.average_mean is missing"),
        ({"learner": "words-only", "settings": {}}, "settings.lambda_ is missing"),
        ({"arm": "weird"}, "arm is 'weird', but the other values are those of words"),
        ({"arm": "plain"}, "arm is 'plain', but"),
        ({"arm": [1]}, r"arm is \[1\], but"),
        ({"settings": [1]}, "settings is \\[1\\]; it must be an object"),
        ({"targets": "dtd"}, 'targets is "dtd"; it must be a list'),
        ({"dataset": 3}, "dataset is 3; it must be a text"),
        ({"dataset": "\ud800"}, r'dataset is "\\ud800"; it must be a text'),
        ({"accuracy": {"base": 0.5, "novel": 0.5, "\ud800": 1}}, "accuracy has the name"),
        ({"id": "x" * 5000}, r"id is .*\.\.\.; it must be a text of up to 400 characters"),
        ({"seed": 10**400}, r"seed is 10{59}\.\.\.; it must be a whole number"),
        ({"settings": {"m": -(10**400)}}, "settings.m is -10"),
        ({"settings": {"lr": 10**400}}, "settings.lr is 10"),
        ({"settings": {"random_words": "x"}}, "settings.random_words is"),
        ({"settings": {"new": [1]}}, r"settings.new is \[1\]; it must be a text, a number"),
        ({"settings": {"pool": {"words_file": 3}}}, "settings.pool.words_file is 3"),
        ({"backbone": {"name": [1]}}, r"backbone.name is \[1\]"),
        ({"data": {"test_images": "many"}}, 'data.test_images is "many"; it must be an object'),
        ({"data": {"unreadable_images": {"base": "x"}}}, "data.unreadable_images.base is"),
        ({"selection": {**search((1.0,)), "pool_size": None}}, "selection.pool_size is null"),
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


@pytest.mark.parametrize("text", ["", "{", '{"format": 1', "[]", "\x00", '"text"'])
def test_no_record_at_all(text: str, tmp_path: Path) -> None:
    folder = write_records(tmp_path, record())
    (folder / "records" / "broken.json").write_text(text)
    results, (note,) = read_records([folder])
    assert len(results) == 1
    assert "broken.json" in note


def test_a_field_that_is_missing(tmp_path: Path) -> None:
    lost = record(seed=2)
    del lost["learner"]
    folder = write_records(tmp_path, record(), lost)
    _, (note,) = read_records([folder])
    assert "learner is missing" in note


def test_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no folder .*nowhere"):
        read_records([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="There is no run record in .*; `ipl bench"):
        read_records([tmp_path])
    write_records(tmp_path, {**record(), "format": 7})
    with pytest.raises(DataError, match=r"are damaged \(1\)\. The first: .*format is 7\.$"):
        read_records([tmp_path])


def test_the_same_run_in_two_folders_counts_once(tmp_path: Path) -> None:
    failed = {**record(), "status": "failed", "error": "No room.", "accuracy": {}}
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
    (same,), notes = read_records([second, second])
    assert same.done
    assert notes == []


def test_files_that_are_no_records_are_not_read(tmp_path: Path) -> None:
    folder = write_records(tmp_path, record())
    (folder / "records" / ".half.json.tmp").write_text("{")
    (folder / "plan.json").write_text(json.dumps({}))
    assert read_records([folder])[1] == []


def test_pools_have_names() -> None:
    assert pool_name({"words_file": None, "sha256": "ab" * 32, "no_names": False}) == "bundled"
    assert pool_name({"words_file": None, "no_names": True}) == "bundled without names"
    own = {"words_file": "lists/mine.txt", "sha256": "ab" * 32, "no_names": False}
    assert pool_name(own) == "mine.txt abababab"


def test_what_0_1_called_auto_is_the_papers_rule(tmp_path: Path) -> None:
    old = {**record(words="auto"), "versions": {"ipl": "0.1.0"}}
    new = {**record(words="auto", seed=2), "versions": {"ipl": "0.2.0"}}
    assert [RunRecord.from_dict(values).words for values in (old, new)] == ["paper", "auto"]
