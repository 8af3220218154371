"""Answers are kept at once, each person's apart, the last one to an item."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipl.explain.ratings.raters import Raters, clean_name, key_of
from ipl.explain.ratings.study import Study
from ipl.support.errors import ConfigError, DataError, IplError
from tests.helpers.ratings import write_small_study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_small_study(tmp_path / "study")


@pytest.fixture
def folder(study: Study, tmp_path: Path) -> Path:
    return tmp_path / "study"


def test_an_answer_survives_a_power_failure(
    folder: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is put on disk before it is renamed, and its folder after that."""
    events: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("rename"), replace(*names)))
    Raters(folder, study).rate("Anna", "a1", 4)
    assert events == ["fsync", "rename", "fsync"]


def test_answers_are_on_disk_at_once(folder: Path, study: Study) -> None:
    raters = Raters(folder, study)
    assert raters.rate("Anna", "a1", 4) == 1
    assert Raters(folder, study).answers("Anna") == {"a1": 4}
    assert raters.rate("Bo", "a1", 2) == 1
    assert raters.rate("Anna", "b2", 1) == 2
    assert raters.rate("  anna ", "a1", 5) == 2  # the same person, who has changed her mind
    again = Raters(folder, study)
    assert again.answers("ANNA") == {"a1": 5, "b2": 1}
    assert again.answers("Bo") == {"a1": 2}
    assert again.answers("Cleo") == {}
    assert [one.name for one in again.every()] == ["Anna", "Bo"]
    assert len(list((folder / "raters").iterdir())) == 2


def test_many_at_once_lose_nothing(folder: Path, study: Study) -> None:
    raters, items = Raters(folder, study), sorted(study.items)
    jobs = [(name, item) for item in items for name in ("Anna", "Bo", "anna")]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda job: raters.rate(*job, 3), jobs))
    again = Raters(folder, study)
    assert again.answers("Anna") == again.answers("Bo") == dict.fromkeys(items, 3)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "<script>alert(1)</script>", "CON", "ど う", "=1+1", "a\\b"]
)
def test_any_name_is_kept_as_typed_and_is_no_path(name: str, folder: Path, study: Study) -> None:
    Raters(folder, study).rate(name, "a1", 3)
    (file,) = (folder / "raters").iterdir()
    assert file.name == f"{key_of(name)}.json"
    assert json.loads(file.read_text(encoding="utf-8"))["rater"] == name
    assert Raters(folder, study).answers(name) == {"a1": 3}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (None, "name is missing"),
        (7, "name is missing"),
        ("", "name is empty"),
        (" \t\n", "name is empty"),
        ("a\x00b", "cannot be displayed"),
        ("\u202egnp", "cannot be displayed"),
        ("x" * 61, "has 61 characters; at most 60"),
    ],
)
def test_what_is_no_name(name: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        clean_name(name)


def test_blanks_in_a_name() -> None:
    assert clean_name("  Anna \n Maria ") == "Anna Maria"


@pytest.mark.parametrize("rating", [0, 6, -1, 2.5, 3.0, "3", True, None, [1]])
def test_what_is_no_rating(rating: Any, folder: Path, study: Study) -> None:
    raters = Raters(folder, study)
    with pytest.raises(DataError, match="rating is .*; allowed are 1 to 5"):
        raters.rate("Anna", "a1", rating)
    for item in ("nothing", None, ["a1"]):
        with pytest.raises(DataError, match="item is none of this study"):
            raters.rate("Anna", item, 3)
    assert raters.every() == ()
    assert list((folder / "raters").iterdir()) == []


def test_there_is_room_for_so_many(folder: Path, study: Study) -> None:
    raters = Raters(folder, study, most=2)
    raters.rate("Anna", "a1", 3)
    raters.rate("Bo", "a1", 3)
    with pytest.raises(ConfigError, match="2 people have rated already"):
        raters.rate("Cleo", "a1", 3)
    with pytest.raises(ConfigError, match="2 people have rated already"):
        raters.check_room("Cleo")
    assert raters.rate("Bo", "b2", 3) == 2


def test_an_answer_that_cannot_be_written_is_not_kept(
    folder: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    raters = Raters(folder, study)
    raters.rate("Anna", "a1", 3)

    def full(*_: Any) -> None:
        raise IplError("Cannot write x: No space left on device.")

    monkeypatch.setattr("ipl.explain.ratings.raters.write_json", full)
    with pytest.raises(IplError, match="No space left"):
        raters.rate("Anna", "b2", 3)
    assert raters.answers("Anna") == {"a1": 3}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is damaged"),
        ('{"rater": "x"}', "is damaged: 'answers'"),
        ('{"rater": "", "answers": {}}', "is damaged: name is empty"),
        ('{"rater": "x", "answers": {"a1": {"rating": 9, "time": ""}}}', "rating is 9"),
        ('{"rater": "x", "answers": {"a1": {"rating": [1], "time": ""}}}', "rating is"),
        ('{"rater": "x", "answers": {"q": {"rating": 1, "time": ""}}}', "does not ask"),
    ],
)
def test_a_damaged_file_is_named(text: str, told: str, folder: Path, study: Study) -> None:
    (folder / "raters" / "0.json").write_text(text)
    with pytest.raises(DataError) as caught:
        Raters(folder, study)
    assert "0.json" in str(caught.value)
    assert told in str(caught.value)
    assert str(caught.value).endswith(".")
