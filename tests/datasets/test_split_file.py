"""CoOp's split files: what is read, and what each kind of damage is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.datasets.dataset import Item
from ipl.datasets.split_file import read_split
from ipl.support.errors import DataError
from tests.helpers.split_files import rows, write_split

GOOD = {"train": rows(["a", "b"], 2), "test": rows(["a", "b"], 1, 2)}


def _read(file: Path) -> Any:
    return read_split(file, file.parent / "images", "some")


def test_labels_keep_their_numbers_whatever_their_order(tmp_path: Path) -> None:
    train = [["x.jpg", 2, "c"], ["y.jpg", 0, "a_a"], ["z.jpg", 1, "b"]]
    test = [["w.jpg", 1, "b"]]
    dataset = _read(write_split(tmp_path / "s.json", train=train, val=None, test=test))
    assert dataset.class_names == ("a a", "b", "c")
    images = tmp_path / "images"
    assert dataset.train == tuple(Item(images / p, label) for p, label, _ in train)
    assert dataset.test == (Item(images / "w.jpg", 1),)


def test_names_that_are_not_ascii_are_written_without_accents(tmp_path: Path) -> None:
    names = ["crème_brûlée", "Citroën"]
    split = {"train": rows(names, 1), "test": rows(names, 1, 1)}
    dataset = _read(write_split(tmp_path / "s.json", **split))
    assert dataset.class_names == ("creme brulee", "Citroen")
    assert dataset.train[0].path.parent.name == "crème_brûlée"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"s\.json is not valid JSON .Expecting value, line 1.: expected an object with train"),
        ('{"train": [\n["a.jpg", 0, "a"],', r"not valid JSON .*line 2"),
        ("[" * 100_000, "not valid JSON .nested too deeply"),
        ("{}", "contains no list 'train'"),
        ('{"train": [["a.jpg", 0, "a"]]}', "contains no list 'test'"),
        ('{"train": [], "test": []}', "train is empty"),
        ('{"train": [["a.jpg", 0]], "test": []}', r'train\[0\] is \["a.jpg", 0\]: expected'),
        ('{"train": [["a.jpg", "0", "a"]]}', r"train\[0\] is"),
        ('{"train": [["a.jpg", true, "a"]]}', r"train\[0\] is"),
        ('{"train": [["", 0, "a"]]}', r"train\[0\] is"),
    ],
)
def test_the_wrong_shape(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(DataError, match=said):
        _read(tmp_path / "s.json")


def _moved(by: int, only: int | None = None) -> dict[str, Any]:
    def new(label: int) -> int:
        return label + by if only in (None, label) else label

    return {part: [[p, new(n), c] for p, n, c in GOOD[part]] for part in GOOD}


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (_moved(1), "labels start at 1; 2 classes need the labels 0 to 1"),
        (_moved(-1), "labels start at -1"),
        (_moved(4, only=1), "labels jump from 0 to 5; 2 classes need the labels 0 to 1"),
        ({**GOOD, "test": [["t.jpg", 0, "b"]]}, r"label 0 is 'a' but, for t.jpg, 'b'"),
        ({**GOOD, "test": GOOD["train"]}, r"lists a/000.jpg twice .train and test.; each"),
        ({**GOOD, "train": GOOD["train"] * 2}, r"lists a/000.jpg twice .train.;"),
        ({"train": rows(["a", "A"], 1), "test": rows(["a", "A"], 1, 1)}, "read the same"),
        ({"train": rows(["a"], 2), "test": rows(["a"], 1, 2)}, "only one class"),
        ({"train": rows(["a", "_"], 2), "test": rows(["a", "_"], 1, 2)}, "empty name"),
    ],
)
def test_labels_and_paths_that_cannot_be(split: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        _read(write_split(tmp_path / "s.json", **split))
