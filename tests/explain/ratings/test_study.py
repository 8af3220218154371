"""Studies: what each rater is asked and in which order, and what is read from a damaged folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipl.explain.ratings.study import (
    FILE,
    RatingImages,
    fingerprint,
    is_study,
    read_study,
    screens,
    write_study,
)
from ipl.saving.format import read_run
from ipl.support.errors import ConfigError, DataError
from tests.helpers.ratings import small_study, write_small_study

SAVED = Path(__file__).parents[1] / "saving" / "version-1"


def test_every_word_is_asked_once_and_lists_stay_together() -> None:
    study = small_study()
    for name in map(str, range(40)):
        asked = screens(study, name)
        items = [item for _, some in asked for item in some]
        assert len(items) == len(set(items)) == 9
        assert set(items) == study.items
        lists = [
            {study.tasks[run.task].name_of(word) for word in words}
            for run in study.runs
            for words in run.lists.values()
        ]
        for task, some in asked:
            assert set(some) <= study.tasks[task].items.keys()
            assert any(set(some) <= one for one in lists)


def test_the_order_is_each_raters_own_and_stays() -> None:
    study = small_study()
    orders = [screens(study, str(number)) for number in range(40)]
    assert orders == [screens(study, str(number)) for number in range(40)]
    assert len({str(order) for order in orders}) > 30
    assert screens(replace(study, seed="other"), "0") != orders[0]
    # Whichever list "sand" is in, the chosen or the other, it may come first.
    with_sand = {some for order in orders for _, some in order if "a1" in some}
    assert {("a1", "c3"), ("c3", "a1"), ("a1", "b2"), ("b2", "a1")} <= with_sand
    first = {order[0][1] for order in orders}
    assert {("a7",), ("b8",), ("c9",)} <= first


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    study = write_small_study(tmp_path / "study")
    assert is_study(tmp_path / "study")
    assert read_study(tmp_path / "study") == study
    assert len(list((tmp_path / "study" / "images").iterdir())) == 4
    with pytest.raises(ConfigError, match="holds other files"):
        write_study(tmp_path / "study", study, {})
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="is a file; a study is a folder"):
        write_study(tmp_path / "file", study, {})


def _without(key: str) -> Any:
    return lambda value: value.pop(key)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_without("format"), "does not describe a study"),
        (lambda v: v.update(version=2), "has version 2; this ipl reads version 1"),
        (_without("seed"), "is damaged: KeyError('seed')"),
        (lambda v: v.update(seed=5), "is damaged: TypeError('5 is no text')"),
        (lambda v: v.update(tasks={"a": 1}), "is damaged"),
        (lambda v: v["tasks"][0].update(items=[]), "is damaged"),
        (lambda v: v["tasks"][0].update(classes="ab"), "'ab' is no list"),
        (lambda v: v["tasks"][1]["items"].update(a1="x"), "Two items have the same name."),
        (lambda v: v["tasks"][0]["images"][0].update(file="../../x.jpg"), "'../../x.jpg'"),
        (lambda v: v["runs"][0].update(task=7), "has no task"),
        (lambda v: v["runs"][0].update(task="0"), "has no task"),
        (lambda v: v["runs"][0]["lists"].pop("plain"), "not three lists"),
        (lambda v: v["runs"][0]["lists"].update(plain=["absent"]), "'absent' is asked by no item"),
    ],
)
def test_a_damaged_study_is_told_in_one_sentence(change: Any, told: str, tmp_path: Path) -> None:
    write_small_study(tmp_path / "study")
    path = tmp_path / "study" / FILE
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(DataError) as caught:
        read_study(tmp_path / "study")
    assert told in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(".")
    path.write_text("{")
    with pytest.raises(DataError, match=r"study.json is damaged"):
        read_study(tmp_path / "study")


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a study: study.json is missing"):
        read_study(tmp_path)
    assert not is_study(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["../x.jpg", "/etc/passwd", "", "a/b.jpg", "00112233.png"])
def test_a_image_is_a_file_of_the_folder(name: str) -> None:
    with pytest.raises(DataError, match="An image is named"):
        RatingImages(name, "beach")


def test_a_run_is_known_by_what_it_is_not_where(tmp_path: Path) -> None:
    first = fingerprint(read_run(SAVED))
    moved = Path(shutil.copytree(SAVED, tmp_path / "moved"))
    assert fingerprint(read_run(moved)) == first
    saved = read_run(moved)
    name, tensor = next(iter(saved.tensors.items()))
    saved.tensors[name] = tensor + 1e-6
    assert fingerprint(saved) != first
    config = json.loads((moved / "config.json").read_text())
    config["classes"] = config["classes"][::-1]
    (moved / "config.json").write_text(json.dumps(config))
    assert fingerprint(read_run(moved)) != first
